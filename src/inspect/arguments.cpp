#include "inspect/arguments.h"

#include <algorithm>

#include "base/env.h"
#include "base/suggest.h"

namespace lockstep::inspect {
namespace {

bool among(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

Error unknown(const std::string& name, const Syntax& syntax) {
  std::vector<std::string> known = syntax.flags;
  known.insert(known.end(), syntax.values.begin(), syntax.values.end());
  return {ErrorKind::kUsage,
          "unknown option '" + name + "'" + suggestion(name, known) + "; usage: " + syntax.usage};
}

}  // namespace

std::optional<std::string> Arguments::value(const std::string& name) const {
  const auto found = values.find(name);
  if (found == values.end()) return std::nullopt;
  return found->second;
}

Result<Arguments> parse(std::span<const std::string> words, const Syntax& syntax) {
  const auto wrong = [&](const std::string& what) {
    return Error{ErrorKind::kUsage, what + "; usage: " + syntax.usage};
  };
  Arguments arguments;
  bool options = true;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!options || word.size() < 2 || word[0] != '-') {
      if (word.empty()) return wrong("an empty path");
      LOCKSTEP_TRY(check_local(word));
      arguments.paths.push_back(word);
      continue;
    }
    if (word == "--") {
      options = false;
      continue;
    }
    const std::size_t equal = word.find('=');
    const std::string name = word.substr(0, equal);
    const bool has_value = equal != std::string::npos;
    if (among(syntax.flags, name)) {
      if (has_value) return wrong("'" + name + "' takes no value");
      arguments.flags.insert(name);
      continue;
    }
    if (!among(syntax.values, name)) return unknown(name, syntax);
    if (!has_value && i + 1 == words.size()) return wrong("'" + name + "' needs a value");
    arguments.values[name] = has_value ? word.substr(equal + 1) : words[++i];
    if (arguments.values[name].empty()) return wrong("'" + name + "' needs a value");
  }
  if (arguments.paths.size() < syntax.least) return wrong("too few paths");
  if (arguments.paths.size() > syntax.most)
    return wrong("unexpected '" + arguments.paths[syntax.most] + "'");
  return arguments;
}

}  // namespace lockstep::inspect

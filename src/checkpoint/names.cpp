#include "checkpoint/names.h"

#include <algorithm>
#include <map>

#include "base/suggest.h"
#include "checkpoint/tensor.h"

namespace lockstep::checkpoint {
namespace {

// Longer names, and more of them, are not compared: a file may have what it likes.
constexpr std::size_t kLongest = 200;
constexpr std::size_t kMost = 2000;

bool is_wrapper(std::string_view component) {
  return component == "module" || component == "_orig_mod";
}

// "module.", "_orig_mod." and the like at the front of a name.
std::string_view leading_wrappers(std::string_view name) {
  std::size_t end = 0;
  for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', end)) {
    if (!is_wrapper(name.substr(end, dot - end))) break;
    end = dot + 1;
  }
  return name.substr(0, end);
}

// Before all names.
std::string common_wrappers(std::span<const std::string> names) {
  if (names.empty()) return "";
  std::string_view common = leading_wrappers(names.front());
  for (const std::string& name : names) {
    while (!name.starts_with(common)) {
      common.remove_suffix(1);
      common = common.substr(0, common.rfind('.') == common.npos ? 0 : common.rfind('.') + 1);
    }
  }
  return std::string(common);
}

// The last component is the tensor's own name, whatever it is.
std::string without_wrappers(std::string_view name) {
  std::string text;
  std::size_t begin = 0;
  for (std::size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', begin)) {
    if (!is_wrapper(name.substr(begin, dot - begin))) text += name.substr(begin, dot + 1 - begin);
    begin = dot + 1;
  }
  return text.append(name.substr(begin));
}

using Indices = std::map<std::string_view, std::size_t>;

Indices indices_of(std::span<const std::string> names) {
  Indices indices;
  for (std::size_t i = 0; i < names.size(); ++i) indices.try_emplace(names[i], i);
  return indices;
}

std::size_t count_equal(std::span<const std::string> own, const Indices& given) {
  return static_cast<std::size_t>(
      std::ranges::count_if(own, [&](const std::string& name) { return given.contains(name); }));
}

// `given` with the wrappers that `own` has before all its names in the place of its own.
std::vector<std::string> with_prefix_of(std::span<const std::string> own,
                                        std::span<const std::string> given) {
  const std::string wanted = common_wrappers(own), there = common_wrappers(given);
  std::vector<std::string> names;
  names.reserve(given.size());
  for (const std::string& name : given) names.push_back(wanted + name.substr(there.size()));
  return names;
}

// Those that are left on both sides and differ in wrappers alone.
void match_without_wrappers(std::span<const std::string> own, std::span<const std::string> given,
                            std::vector<bool>& taken, Matching& matching) {
  struct Left {
    std::vector<std::size_t> own, given;
  };
  std::map<std::string, Left> left;
  for (std::size_t i = 0; i < own.size(); ++i)
    if (!matching.source[i]) left[without_wrappers(own[i])].own.push_back(i);
  for (std::size_t i = 0; i < given.size(); ++i)
    if (!taken[i]) left[without_wrappers(given[i])].given.push_back(i);
  for (const auto& [name, both] : left) {
    if (both.own.size() != 1 || both.given.size() != 1) continue;
    matching.source[both.own[0]] = both.given[0];
    taken[both.given[0]] = true;
  }
}

}  // namespace

Matching match_names(std::span<const std::string> own, std::span<const std::string> given) {
  const std::vector<std::string> prefixed = with_prefix_of(own, given);
  Indices indices = indices_of(given);
  if (Indices other = indices_of(prefixed); count_equal(own, other) > count_equal(own, indices))
    indices = std::move(other);
  Matching matching;
  std::vector<bool> taken(given.size());
  for (const std::string& name : own) {
    const auto found = indices.find(name);
    matching.source.push_back(found == indices.end() ? std::nullopt : std::optional(found->second));
    if (matching.source.back()) taken[*matching.source.back()] = true;
  }
  match_without_wrappers(own, given, taken, matching);
  for (std::size_t i = 0; i < given.size(); ++i)
    if (!taken[i]) matching.rest.push_back(i);
  return matching;
}

std::string nearest_names(std::string_view name, std::span<const std::string> known) {
  if (name.size() > kLongest) return "";
  std::vector<std::string> comparable;
  for (const std::string& each : known.first(std::min(known.size(), kMost)))
    if (each.size() <= kLongest) comparable.push_back(each);
  std::string text;
  int found = 0;
  const auto add = [&](const std::string& each) {
    text += (found++ == 0 ? "; the nearest: " : " and ") + quote(each);
  };
  const std::string as_tail = "." + std::string(name);
  for (const std::string& each : comparable)
    if (found < 2 && (each.ends_with(as_tail) || name.ends_with("." + each))) add(each);
  if (found > 0) return text;
  if (const auto nearest = nearest_name(name, comparable)) add(*nearest);
  return text;
}

}  // namespace lockstep::checkpoint

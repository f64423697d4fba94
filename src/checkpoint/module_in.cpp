#include "checkpoint/module_in.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "checkpoint/names.h"
#include "checkpoint/store.h"

namespace lockstep::checkpoint {
namespace {

constexpr const char* kModel = "model";

Error no_such(const std::string& what) { return {ErrorKind::kBadData, what}; }

Result<ModulePlace> by_map(const Manifest& manifest, const std::string& name,
                           std::span<const TensorInfo> model) {
  std::vector<std::string> names;
  std::uint64_t first = 0;
  for (const ModuleEntry& module : manifest.modules) {
    names.push_back(module.name);
    const bool fits = first <= model.size() && module.tensors <= model.size() - first;
    if (!fits) return no_such("its map of modules has more tensors than its weights");
    const auto own =
        model.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(module.tensors));
    first += module.tensors;
    if (module.name != name) continue;
    for (const TensorInfo& tensor : own)
      if (!tensor.name.starts_with(module.prefix))
        return no_such("its map of modules says that " + quote(tensor.name) + " is of " +
                       quote(name) + ", whose names begin with " + quote(module.prefix));
    return ModulePlace{kModel, static_cast<std::size_t>(first) - own.size(), own.size(),
                       module.prefix};
  }
  return no_such("it has no module " + quote(name) + nearest_names(name, names) +
                 "; it has: " + modules_in_words(manifest));
}

// Those that begin with "NAME.".
Result<std::optional<ModulePlace>> by_names(const std::string& name,
                                            std::span<const TensorInfo> model) {
  const std::string prefix = name + ".";
  const auto is_its = [&](const TensorInfo& tensor) { return tensor.name.starts_with(prefix); };
  const auto begin = std::ranges::find_if(model, is_its);
  const auto end = std::find_if_not(begin, model.end(), is_its);
  if (begin == end) return std::optional<ModulePlace>();
  if (std::find_if(end, model.end(), is_its) != model.end())
    return no_such("the module " + quote(name) +
                   " is ambiguous: there is no map of modules, and tensors that begin with " +
                   quote(prefix) + " are in several places");
  return std::optional(ModulePlace{kModel, static_cast<std::size_t>(begin - model.begin()),
                                   static_cast<std::size_t>(end - begin), prefix});
}

bool has_part(const Manifest& manifest, const std::string& name) {
  return std::ranges::count(manifest.files, part_file(name), &FileEntry::name) != 0;
}

}  // namespace

std::string modules_in_words(const Manifest& manifest) {
  std::string words;
  for (const ModuleEntry& module : manifest.modules)
    words += (words.empty() ? "" : ", ") + quote(module.name);
  return words;
}

Result<std::optional<ModulePlace>> find_module(const Manifest& manifest, const std::string& name,
                                               std::span<const TensorInfo> model) {
  if (!manifest.modules.empty()) {
    LOCKSTEP_ASSIGN(ModulePlace place, by_map(manifest, name, model));
    return std::optional(std::move(place));
  }
  LOCKSTEP_ASSIGN(std::optional<ModulePlace> named, by_names(name, model));
  const bool part = name != kModel && has_part(manifest, name);
  if (named && part)
    return no_such("the module " + quote(name) +
                   " is ambiguous: there is no map of modules, and a part of that name beside "
                   "tensors of the part 'model' that begin with " +
                   quote(name + "."));
  if (part) return std::optional(ModulePlace{name, 0, std::numeric_limits<std::size_t>::max(), ""});
  return named;
}

}  // namespace lockstep::checkpoint

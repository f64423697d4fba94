#include "checkpoint/pt/weights.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/env.h"
#include "checkpoint/file_reader.h"
#include "checkpoint/module_in.h"
#include "checkpoint/names.h"
#include "checkpoint/pt/convert.h"
#include "checkpoint/pt/reader.h"
#include "checkpoint/search.h"
#include "checkpoint/store.h"

namespace lockstep::checkpoint::pt {
namespace {

constexpr const char* kWeightsPart = "model";

Error bad_weights(const std::string& path, const std::string& what) {
  return {ErrorKind::kBadData, quote(path) + what};
}

// Verified.
Result<Found> newest_of(const std::string& run_dir) {
  LOCKSTEP_ASSIGN(Search search, find_newest(posix_env(), run_dir));
  if (search.newest) return *std::move(search.newest);
  return bad_weights(run_dir, " has no whole checkpoint");
}

// The verified checkpoint that `path` leads to, if to one.
Result<std::optional<Found>> checkpoint_at(const std::string& path) {
  Env& env = posix_env();
  const std::string folder = led_to(env, path);
  const bool run = is_run_directory(env, path);
  std::error_code code;  // who may not look sees no folder
  if (folder == path && !std::filesystem::is_directory(path, code)) return std::optional<Found>();
  LOCKSTEP_ASSIGN(Found found, run ? newest_of(path) : load_checkpoint_at(env, folder, {}, {}));
  return std::optional(std::move(found));
}

std::string file_of(const Found& found, const std::string& part) {
  return found.path + "/" + part_file(part);
}

bool has_file_of(const Found& found, const std::string& part) {
  return std::ranges::count(found.manifest.files, part_file(part), &FileEntry::name) != 0;
}

Result<Weights> whole(const Found& found, const std::string& remark) {
  if (!has_file_of(found, kWeightsPart))
    return bad_weights(found.path, " has no part 'model'" + remark);
  LOCKSTEP_ASSIGN(auto tensors, load_listed(file_of(found, kWeightsPart)));
  return Weights{std::move(tensors), "", remark};
}

Result<Weights> weights_in(const Found& found, const std::string& key) {
  const std::size_t modules = found.manifest.modules.size();
  const bool asks = !key.empty() && key != kWeightsPart;
  if (modules > 1 && key.empty())
    return whole(found, ". The checkpoint is of several modules; the key names one of them: " +
                            modules_in_words(found.manifest));
  if (modules == 1 || (modules == 0 && !asks)) return whole(found, "");
  std::vector<TensorInfo> infos;
  if (has_file_of(found, kWeightsPart)) {
    LOCKSTEP_ASSIGN(infos, read_infos(posix_env(), file_of(found, kWeightsPart)));
  }
  const auto place = find_module(found.manifest, key, infos);
  if (!place.ok()) return bad_weights(found.path, ": " + place.error().message);
  if (!*place)
    return whole(found, ". The checkpoint has no map of modules, no part " + quote(key) +
                            " and no tensor that begins with " + quote(key + ".") +
                            ": so it was taken whole. A train state's first module has no prefix: "
                            "{.strict = false} takes what fits it by name");
  LOCKSTEP_ASSIGN(auto tensors, load_listed(file_of(found, (*place)->part), &**place));
  return Weights{std::move(tensors), "module " + quote(key) + ": ", ""};
}

}  // namespace

Result<pickle::Value> value_at(const std::string& path, const std::string& key) {
  LOCKSTEP_ASSIGN(pickle::Value root, read(posix_env(), path));
  if (key.empty()) return root;
  if (const pickle::Value* const value = root.find(key)) return pickle::Value(*value);
  std::vector<std::string> there;
  if (root.dict_value() != nullptr)
    for (const auto& [name, value] : root.dict_value()->pairs)
      if (name.text() != nullptr) there.push_back(*name.text());
  return bad_weights(path, " has no " + quote(key) + nearest_names(key, there));
}

Result<Weights> weights_at(const std::string& path, const std::string& key) {
  // A run that goes on may withdraw the checkpoint that was found: then it has a newer one.
  for (int tries = 1;; ++tries) {
    LOCKSTEP_ASSIGN(const std::optional<Found> found, checkpoint_at(path));
    if (!found) break;
    auto weights = weights_in(*found, key);
    if (weights.ok() || tries == 3 || posix_env().exists(found->path)) return weights;
  }
  LOCKSTEP_ASSIGN(const bool safetensors, is_safetensors(posix_env(), path));
  if (safetensors) {
    LOCKSTEP_ASSIGN(auto tensors, load_listed(path));
    return Weights{std::move(tensors), "", ""};
  }
  LOCKSTEP_ASSIGN(const pickle::Value dict, value_at(path, key));
  Importer in;
  auto given = in.given(dict);
  if (!given.ok()) return Error{given.error().kind, quote(path) + ": " + given.error().message};
  return Weights{*std::move(given), "", ""};
}

}  // namespace lockstep::checkpoint::pt

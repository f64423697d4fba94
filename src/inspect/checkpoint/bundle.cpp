#include "inspect/checkpoint/bundle.h"

#include <algorithm>
#include <array>
#include <memory>

#include "checkpoint/file_reader.h"
#include "checkpoint/pt/reader.h"
#include "checkpoint/search.h"
#include "checkpoint/store.h"
#include "inspect/checkpoint/pt_values.h"
#include "inspect/files.h"

namespace lockstep::inspect {
namespace {

using checkpoint::kManifestName;

constexpr std::string_view kSuffix = ".safetensors";

// Tensors of one safetensors file; it stays open as long as one of them lives.
Result<Part> open_part(Env& env, const std::string& path, const std::string& name,
                       checkpoint::Metadata* metadata = nullptr) {
  LOCKSTEP_ASSIGN(std::shared_ptr<ReadableFile> file, env.open_read(path));
  auto header = checkpoint::read_header(*file);
  if (!header.ok()) return with_path(path, header.error());
  std::ranges::sort(header->entries, {}, &checkpoint::Entry::place);
  Part part{name, {}};
  for (checkpoint::Entry& entry : header->entries) {
    const std::uint64_t at = header->data_start + entry.begin;
    const auto size = static_cast<std::size_t>(entry.end - entry.begin);
    part.tensors.push_back({std::move(entry.info), [file, at, size]() -> Result<Bytes> {
                              Bytes bytes(size);
                              LOCKSTEP_TRY(file->read_at(at, bytes));
                              return bytes;
                            }});
  }
  if (metadata != nullptr) *metadata = std::move(header->metadata);
  return part;
}

Result<Bundle> bundle_of(Env& env, checkpoint::Found found) {
  Bundle bundle;
  bundle.path = found.path;
  bundle.state = std::move(found.state);
  for (const checkpoint::FileEntry& file : found.manifest.files) {
    if (!file.name.ends_with(kSuffix)) continue;
    const std::string name = file.name.substr(0, file.name.size() - kSuffix.size());
    LOCKSTEP_ASSIGN(Part part, open_part(env, found.path + "/" + file.name, name));
    bundle.parts.push_back(std::move(part));
  }
  bundle.manifest = std::move(found.manifest);
  return bundle;
}

Result<Bundle> open_run(Env& env, const std::string& path) {
  LOCKSTEP_ASSIGN(checkpoint::Search search, checkpoint::find_newest(env, path));
  std::vector<std::string> skipped;
  for (const SkippedCheckpoint& each : search.skipped)
    skipped.push_back(each.path + ": " + each.reason);
  if (!search.newest) {
    std::string message = "no whole checkpoint in '" + path + "'";
    if (!skipped.empty()) message += "; the newest: " + skipped.front();
    return Error{ErrorKind::kBadData, message};
  }
  LOCKSTEP_ASSIGN(Bundle bundle, bundle_of(env, *std::move(search.newest)));
  bundle.skipped = std::move(skipped);
  return bundle;
}

Result<Bundle> open_safetensors(Env& env, const std::string& path) {
  Bundle bundle;
  bundle.kind = BundleKind::kSafetensors;
  bundle.path = path;
  checkpoint::Metadata metadata;
  LOCKSTEP_ASSIGN(Part part, open_part(env, path, "", &metadata));
  bundle.parts.push_back(std::move(part));
  for (const auto& [key, value] : metadata)
    bundle.values.emplace_back(key, checkpoint::quote(value));
  return bundle;
}

Result<Bundle> open_pt(Env& env, const std::string& path) {
  LOCKSTEP_ASSIGN(const pickle::Value value, checkpoint::pt::read(env, path));
  Bundle bundle;
  bundle.kind = BundleKind::kPt;
  bundle.path = path;
  add_values(value, bundle);
  return bundle;
}

}  // namespace

bool is_run_directory(Env& env, const std::string& path) {
  return is_folder(path) && checkpoint::is_run_directory(env, path);
}

bool is_checkpoint_folder(Env& env, const std::string& path) {
  return is_folder(path) && !is_run_directory(env, path) && env.exists(path + "/" + kManifestName);
}

Error with_path(const std::string& path, const Error& error) {
  const bool named = error.message.find("'" + path) != std::string::npos;
  return {error.kind, named ? error.message : "'" + path + "': " + error.message};
}

Error not_a_bundle(Env& env, const std::string& path) {
  if (const auto hidden = hidden_at({path, path + "/" + kManifestName})) return *hidden;
  if (!env.exists(path)) return {ErrorKind::kBadData, "'" + path + "' does not exist"};
  return {ErrorKind::kBadData, "'" + path +
                                   "' is no run directory (it has no checkpoints/) and no "
                                   "checkpoint (it has no manifest.json); give a run directory, a "
                                   "checkpoint's folder, a .safetensors or a .pt file"};
}

Result<Bundle> open_bundle(Env& env, const std::string& given) {
  const std::string path = checkpoint::led_to(env, given);
  if (is_run_directory(env, path)) return open_run(env, path);
  if (is_checkpoint_folder(env, path)) {
    LOCKSTEP_ASSIGN(auto found, checkpoint::load_checkpoint_at(env, path, {}, {}));
    return bundle_of(env, std::move(found));
  }
  if (is_folder(path) || !env.exists(path)) return not_a_bundle(env, path);
  LOCKSTEP_ASSIGN(const bool safetensors, checkpoint::is_safetensors(env, path));
  return safetensors ? open_safetensors(env, path) : open_pt(env, path);
}

Result<const Part*> find_part(const Bundle& bundle, const std::string& name) {
  constexpr std::array<std::string_view, 5> kWeights{"model", "MODEL_STATE", "model_state_dict",
                                                     "state_dict", ""};
  std::string there;
  for (const Part& part : bundle.parts) {
    if (!name.empty() && part.name == name) return &part;
    there += (there.empty() ? "" : ", ") + checkpoint::quote(part.name);
  }
  if (name.empty() && bundle.parts.size() == 1) return &bundle.parts.front();
  if (name.empty())
    for (const std::string_view usual : kWeights) {
      const auto found = std::ranges::find(bundle.parts, usual, &Part::name);
      if (found != bundle.parts.end()) return &*found;
    }
  const std::string what =
      name.empty() ? "part that is surely the weights" : "part " + checkpoint::quote(name);
  return Error{ErrorKind::kUsage,
               "'" + bundle.path + "' has no " + what + "; it has " +
                   (there.empty() ? "no tensors" : there) +
                   (name.empty() && !there.empty() ? ": name one by --part" : "")};
}

}  // namespace lockstep::inspect

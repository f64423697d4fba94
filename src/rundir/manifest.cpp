#include "rundir/manifest.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/hash.h"
#include "base/json.h"
#include "base/text.h"

namespace lockstep::rundir {
namespace {

constexpr std::uint64_t kManifestLimitBytes = 1 << 20;

constexpr const char* kProgramKey = "program";

bool is_hash(const std::string& key) {
  return key.ends_with("_sha256") || key.ends_with("_xxh3") || key.ends_with("_fingerprint");
}

// What makes this key as it was.
std::string way_back(const std::string& key, const std::string& then) {
  if (key == "threads")
    return "give each worker " + then + " threads again (OMP_NUM_THREADS or --threads)";
  if (key == "torch") return "start it with libtorch " + then;
  if (key == "cpu_capability")
    return "start it on a CPU with " + then +
           "; one that has more can be held to less by ATEN_CPU_CAPABILITY";
  if (key == kVirtualWorkersKey)
    return "give --virtual-workers " + then + " (or --new-virtual-workers, at an epoch's start)";
  if (key == kProgramKey) return "start the program '" + then + "'";
  if (key == kInitialWeightsKey)
    return "make the model as it was: its layers, their order and the seed before it";
  if (key.starts_with("dataset") || key.starts_with("test_set"))
    return "give it the data and the transforms that it had, unchanged";
  return "give it the same options again";
}

std::string path_in(const std::string& run_dir) { return run_dir + "/manifest.json"; }

}  // namespace

// As it will be read again: the same command finds its own run.
void RunManifest::set(const std::string& key, const std::string& value) {
  values_[printable(key)] = printable(value);
}

std::string RunManifest::json() const { return json_text(nlohmann::json(values_)); }

static std::string hash_without(std::map<std::string, std::string> values,
                                std::initializer_list<const char*> keys) {
  for (const char* key : keys) values.erase(key);
  return sha256_hex(json_text(nlohmann::json(values)));
}

std::string RunManifest::identity() const {
  return hash_without(values_, {kVirtualWorkersKey, kRecordsFromKey, kInitialWeightsKey,
                                kStartEpochKey, kStartBestKey});
}

std::string RunManifest::identity_with_start() const {
  return hash_without(values_, {kVirtualWorkersKey, kRecordsFromKey});
}

Result<RunManifest> RunManifest::parse(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object() || text.find('\0') != text.npos)  // where the parser would end
    return Error{ErrorKind::kBadData, "the run's manifest is not a JSON object"};
  RunManifest manifest;
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string())
      return Error{ErrorKind::kBadData, "the run's manifest: '" + key + "' is not a string"};
    manifest.values_[key] = value.get<std::string>();
  }
  return manifest;
}

std::string RunManifest::value(const std::string& key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? "" : found->second;
}

std::optional<std::int64_t> RunManifest::number(const std::string& key) const {
  return number_of<std::int64_t>(value(key));
}

Result<std::uint32_t> RunManifest::virtual_workers() const {
  const auto count = number(kVirtualWorkersKey);
  if (count && *count > 0 && std::in_range<std::uint32_t>(*count))
    return static_cast<std::uint32_t>(*count);
  return Error{ErrorKind::kBadData, "the run's manifest: virtual_workers is '" +
                                        value(kVirtualWorkersKey) +
                                        "', not a number above 0; --resume never starts over"};
}

std::optional<ManifestDifference> RunManifest::first_difference(const RunManifest& before,
                                                                const std::string& ignore) const {
  std::set<std::string> keys;
  for (const auto* each : {&values_, &before.values_})
    for (const auto& [key, value] : *each)
      if (key != ignore && key != kRecordsFromKey) keys.insert(key);
  const auto value_of = [](const RunManifest& manifest, const std::string& key) {
    const auto found = manifest.values_.find(key);
    return found == manifest.values_.end() ? "absent" : found->second;
  };
  // What follows from another one says less.
  const auto rank = [](const std::string& key) {
    return key == kProgramKey ? 0 : is_hash(key) ? 2 : 1;
  };
  for (const int of : {0, 1, 2})
    for (const std::string& key : keys) {
      const std::string now = value_of(*this, key), then = value_of(before, key);
      if (rank(key) == of && now != then) return ManifestDifference{key, now, then};
    }
  return std::nullopt;
}

Status RunManifest::same_as(const RunManifest& before, const std::string& run_dir,
                            const std::string& ignore) const {
  const auto differs = first_difference(before, ignore);
  if (!differs) return {};
  const auto& [key, now, then] = *differs;
  return Error{ErrorKind::kUsage,
               "'" + run_dir + "' holds another run: " + key + " was " + then + ", now it is " +
                   now + ". To go on with that one, " + way_back(key, then) +
                   ". For a new one, give another --output, or --resume never, which removes "
                   "what is there and starts over"};
}

bool has_manifest(Env& env, const std::string& run_dir) { return env.exists(path_in(run_dir)); }

bool is_run(Env& env, const std::string& folder) {
  const auto text = env.read(path_in(folder), kManifestLimitBytes);
  return text.ok() && text->find(kInitialWeightsKey) != std::string::npos;
}

Result<std::optional<RunManifest>> read_manifest(Env& env, const std::string& run_dir) {
  if (!has_manifest(env, run_dir)) return std::optional<RunManifest>();
  LOCKSTEP_ASSIGN(const std::string text, env.read(path_in(run_dir), kManifestLimitBytes));
  Result<RunManifest> manifest = RunManifest::parse(text);
  if (text.find(kInitialWeightsKey) == std::string::npos)
    return Error{ErrorKind::kUsage, "'" + path_in(run_dir) +
                                        "' is not the manifest of a run of Lockstep; give another "
                                        "directory"};
  if (!manifest.ok())
    return Error{ErrorKind::kBadData, "'" + path_in(run_dir) + "': " + manifest.error().message};
  return std::optional<RunManifest>(*std::move(manifest));
}

Status write_manifest(Env& env, const std::string& run_dir, const RunManifest& manifest) {
  return write_atomically(env, path_in(run_dir), manifest.json() + "\n");
}

Txn records_from(Env& env, const std::string& run_dir) {
  const auto manifest = read_manifest(env, run_dir);
  if (!manifest.ok() || !*manifest) return Txn(0);
  const std::int64_t from = (*manifest)->number(kRecordsFromKey).value_or(0);
  return Txn(static_cast<std::uint64_t>(std::max<std::int64_t>(from, 0)));
}

}  // namespace lockstep::rundir

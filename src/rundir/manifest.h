// The run's manifest: everything that decides its arithmetic, as canonical JSON in
// RUN_DIR/manifest.json. A run goes on only under an equal manifest.
//
// Errors: kBadData for a manifest that cannot be read, kUsage for another run's (the first
// difference is named, with both values and what to do) and for a file that is no run's. Threads:
// values.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "base/env.h"
#include "base/ids.h"
#include "lockstep/status.h"

namespace lockstep::rundir {

// Keys that more than the writer of a manifest knows.
inline constexpr const char* kVirtualWorkersKey = "virtual_workers";
inline constexpr const char* kInitialWeightsKey = "initial_weights_sha256";  // every run has it
// Of a run that began from weights of elsewhere (Trainer::start_from).
inline constexpr const char* kStartEpochKey = "start_epoch";
inline constexpr const char* kStartBestKey = "start_best";
// The first transaction that is recorded in this directory, where it is not 0: the run began from
// a checkpoint or weights of elsewhere. It is the directory's alone: equal runs may differ in it.
inline constexpr const char* kRecordsFromKey = "records_from";

// What differs between two.
struct ManifestDifference {
  std::string key, now, then;  // "absent": it is not there
};

class RunManifest {
 public:
  void set(const std::string& key, const std::string& value);  // kept as printable() has it
  void set(const std::string& key, std::int64_t value) { values_[key] = std::to_string(value); }
  std::string value(const std::string& key) const;  // empty: none
  const std::map<std::string, std::string>& values() const { return values_; }
  // Of a whole number; nullopt: none.
  std::optional<std::int64_t> number(const std::string& key) const;
  // kBadData where the manifest has no such number.
  Result<std::uint32_t> virtual_workers() const;

  std::string json() const;  // keys sorted, one line
  // For checkpoints, a SHA-256: without what a run began from and kRecordsFromKey, as it goes on
  // anywhere; and without the number of virtual workers, which checkpoints keep by itself.
  std::string identity() const;
  std::string identity_with_start() const;  // older checkpoints': with what the run began from
  static Result<RunManifest> parse(const std::string& text);

  // The one that says most: the program, then its settings, then hashes. `ignore`: a key that may
  // differ.
  std::optional<ManifestDifference> first_difference(const RunManifest& before,
                                                     const std::string& ignore = "") const;
  // The error speaks to whoever gave the command.
  Status same_as(const RunManifest& before, const std::string& run_dir,
                 const std::string& ignore = "") const;

 private:
  std::map<std::string, std::string> values_;
};

bool has_manifest(Env& env, const std::string& run_dir);
// There is a manifest, and it is a run's: checkpoints have a file of that name, too.
bool is_run(Env& env, const std::string& folder);
// nullopt: no run there yet.
Result<std::optional<RunManifest>> read_manifest(Env& env, const std::string& run_dir);
Status write_manifest(Env& env, const std::string& run_dir, const RunManifest& manifest);
// kRecordsFromKey of the run there; 0 where nothing says so.
Txn records_from(Env& env, const std::string& run_dir);

}  // namespace lockstep::rundir

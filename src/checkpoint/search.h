// Finding and loading: every byte that is used has been hashed in the same pass. Damaged and
// foreign: see store.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/env.h"
#include "checkpoint/manifest.h"
#include "checkpoint/tensor.h"

namespace lockstep::checkpoint {

// What the run that asks is; unset: not compared.
struct Expectation {
  std::optional<std::string> run_identity;
  std::optional<std::uint32_t> virtual_workers;
  std::optional<std::string> other_identity = {};  // as good as run_identity
};

// A part to load: all tensors of it, by name.
struct PartTarget {
  std::string name;
  std::vector<NamedTarget> tensors;
};

struct Found {
  std::string path;
  Manifest manifest;
  std::string state;  // state.json
};

struct Search {
  std::optional<Found> newest;             // none: start from the seed
  std::vector<SkippedCheckpoint> skipped;  // newest first
};

// The newest checkpoint that is whole. kBadData when that one is foreign: V, a tensor's name, shape
// or dtype, the identity or the format version differs; the first difference is named. With parts,
// these are filled, and they must be all the checkpoint has and have all its tensors. Files are
// read side by side, one thread each. After an error their content is undefined.
Result<Search> load_newest(Env& env, const std::string& run_dir, const Expectation& expected,
                           std::span<const PartTarget> parts);
// The same, only verifying.
Result<Search> find_newest(Env& env, const std::string& run_dir, const Expectation& expected = {});

// That one, or the one that the pointer `last` or `best` at `given` names, and no other: damaged is
// kBadData too.
Result<Found> load_checkpoint_at(Env& env, const std::string& given, const Expectation& expected,
                                 std::span<const PartTarget> parts);

// A safetensors file's tensors, in the header's order; only the header is read.
Result<std::vector<TensorInfo>> read_infos(Env& env, const std::string& file);
// Tensors of a lone safetensors file (no manifest, so no hash): those, which it must have.
Status read_tensors(Env& env, const std::string& file, std::span<const NamedTarget> tensors);

}  // namespace lockstep::checkpoint

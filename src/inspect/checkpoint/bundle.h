// Tensors by name, whatever they lie in: a checkpoint's folder, a run directory (its newest whole
// checkpoint), a safetensors file, a file of Python's torch.save.
//
// Tensors are read when asked for, one at a time, so that a model larger than memory can be looked
// at (.pt files are read whole). Errors: kBadData naming the path: not there, none of the four,
// damaged; kDisk. Threads: one.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "checkpoint/manifest.h"
#include "checkpoint/tensor.h"

namespace lockstep::checkpoint::pt {
struct TensorValue;
}

namespace lockstep::inspect {

using Bytes = std::vector<std::byte>;

struct Tensor {
  checkpoint::TensorInfo info;
  // Row-major; of a dtype that is not read, as they lie in a safetensors file. None: a leaf of a
  // .pt file, of which there is dtype and shape alone.
  std::function<Result<Bytes>()> load;
  // Of a .pt file: where it lies, maybe with others in one storage.
  std::shared_ptr<checkpoint::pt::TensorValue> view = nullptr;
};

struct Part {
  std::string name;             // "model"; of a file without parts: empty
  std::vector<Tensor> tensors;  // in the file's order: of ours, a state_dict's
};

enum class BundleKind { kCheckpoint, kSafetensors, kPt };

struct Bundle {
  BundleKind kind = BundleKind::kCheckpoint;
  std::string path;  // of a run directory: its checkpoint's
  std::vector<Part> parts;
  // kCheckpoint
  std::optional<checkpoint::Manifest> manifest;
  std::string state;                 // state.json
  std::vector<std::string> skipped;  // newer ones of the run that are damaged, and why
  // kPt: what is no tensor, and what is not read, by name, as text; and kSafetensors: its metadata.
  std::vector<std::pair<std::string, std::string>> values;
};

Result<Bundle> open_bundle(Env& env, const std::string& given);

// The part called so; with an empty name the weights: the only part, or "model", or what recipes
// and tutorials call them (MODEL_STATE, model_state_dict, state_dict). kUsage names those there
// are.
Result<const Part*> find_part(const Bundle& bundle, const std::string& name);

// Of a run: holds checkpoints/. Of a checkpoint: holds a manifest.json, but is no run.
bool is_run_directory(Env& env, const std::string& path);
bool is_checkpoint_folder(Env& env, const std::string& path);
Error with_path(const std::string& path, const Error& error);  // that names the file
Error not_a_bundle(Env& env, const std::string& path);         // what it is instead

}  // namespace lockstep::inspect

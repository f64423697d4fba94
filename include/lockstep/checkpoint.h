// Checkpoints: a directory RUN_DIR/checkpoints/step-%08llu per saved state, published whole or not
// at all.
//
//   using Parts = std::vector<lockstep::CheckpointPart>;
//   const Parts parts{{"model", lockstep::state_dict(*model)}, {"optimizer", optimizer.state()}};
//   LOCKSTEP_TRY(lockstep::save_checkpoint("runs/1", parts, {.txn = 100}, "{}"));
//   LOCKSTEP_TRY(lockstep::load_checkpoint("runs/1", parts));  // into those tensors
//
// Each holds one safetensors file per part (Python's `safetensors` opens them), state.json, and
// manifest.json with the size and hash of every file. Nothing that is read is ever executed. The
// trainer saves in the background by itself; these functions are for one's own loop. They do not
// include libtorch: include it yourself to make tensors.
//
// Errors: kUsage (names, dtypes), kBadData (damaged, or of another model or run), kDisk. libtorch's
// exceptions become kInternal. Threads: any, one writer per run directory.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/named_tensors.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/status.h"

namespace torch::nn {
class Module;
}

namespace lockstep {

class Optimizer;

// What is next in the run.
struct RunCursor {
  // Transaction (step or epoch's end) of the run, from 0; the directory's number.
  std::uint64_t txn = 0;
  std::uint64_t epoch = 0;  // from 0
  std::uint64_t step = 0;   // in the epoch, from 0

  friend bool operator==(const RunCursor&, const RunCursor&) = default;
};

struct CheckpointPart {
  std::string name;  // the file is NAME.safetensors; [A-Za-z0-9_-]+
  NamedTensors tensors;
};

struct SkippedCheckpoint {
  std::string path;
  std::string reason;
};

struct CheckpointInfo {
  std::string path;
  RunCursor cursor;
  std::string state;                       // the caller's JSON
  std::string weights_sha256;              // of the part "model"; empty without one
  std::vector<SkippedCheckpoint> skipped;  // newer ones that are damaged
};

// Returns once the checkpoint is published and on storage; keeps the newest `keep_last` (at least
// 1). On an error the older checkpoints are as they were.
Result<CheckpointInfo> save_checkpoint(const std::string& run_dir,
                                       const std::vector<CheckpointPart>& parts,
                                       const RunCursor& cursor, const std::string& state_json,
                                       unsigned keep_last = 2);

// The newest valid checkpoint into the given tensors (any device, any strides); nullopt when there
// is none. Names, shapes and dtypes must match exactly. After an error the tensors' content is
// undefined.
Result<std::optional<CheckpointInfo>> load_checkpoint(const std::string& run_dir,
                                                      const std::vector<CheckpointPart>& parts);

// SHA-256 over the tensors in order of names: each name's bytes, then the tensor's contiguous
// little-endian bytes.
Result<std::string> weights_sha256(const NamedTensors& tensors);

// A single safetensors file, written atomically, where save_pt() may write too; and new CPU tensors
// from one, in its header's order, which is that of the tensors saved. A dtype that libtorch's
// tensors here lack (F4, F8_E8M0, C64, ...) is kBadData, naming the tensor.
Status save_safetensors(const std::string& path, const NamedTensors& tensors);
Result<NamedTensors> load_safetensors(const std::string& path);
// A module as Python's safetensors.torch.save_model() writes it, byte for byte: of tied tensors the
// first name, the others in the metadata with the one that stands for them. Some readers want the
// metadata {{"format", "pt"}}; its order is that of the keys. load_state_dict() reads it, and
// Python's load_model(), into a module with the same tensors tied.
Status save_module_safetensors(const std::string& path, const torch::nn::Module& module,
                               const std::map<std::string, std::string>& metadata);
template <std::derived_from<torch::nn::Module> M>  // "{}" is no module
Status save_safetensors(const std::string& path, const M& module,
                        const std::map<std::string, std::string>& metadata = {}) {
  return save_module_safetensors(path, module, metadata);
}

// Python's torch.save() and torch.load(weights_only=True), for the tutorials' snapshots.
//
//   LOCKSTEP_TRY(lockstep::save_pt("snapshot.pt", {{"MODEL_STATE", &*model},
//                                                  {"OPTIMIZER_STATE", optimizer.state_dict()},
//                                                  {"EPOCHS_RUN", 3}}));
//   LOCKSTEP_ASSIGN(const lockstep::PtFields fields, lockstep::load_pt("snapshot.pt"));
//   LOCKSTEP_TRY(lockstep::load_state_dict(*model, "snapshot.pt", "MODEL_STATE"));
//   LOCKSTEP_TRY(lockstep::load_state_dict(optimizer, "snapshot.pt", "OPTIMIZER_STATE"));
//
// Python goes on from there with the same bits, and so do we from Python's file.
//
// monostate: a value that has no other form here (when reading; nothing is written for it): an
// object of a class of Python's, a complex number or tensor, a set, ... A
// module is written as its state_dict(), and read as NamedTensors. A tensor without dimensions is
// read as its number.
struct PtScalar {
  double value = 0;  // written as such a tensor, float64: what Python calls item() of
};
using PtValue =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, PtScalar,
                 std::vector<double>, NamedTensors, const torch::nn::Module*, OptimizerStateDict>;
using PtFields = std::vector<std::pair<std::string, PtValue>>;

// Whether save_pt() and save_safetensors() can write there, asked before the training: nothing is
// made, what is there stays as it is. kUsage: the path is a folder, a name in it is too long,
// save_pt() would refuse it, or its folder, or the nearest one above it that is there, is not to be
// written to. A run asks it of RunOptions::files at its start.
Status check_can_write(const std::string& path);

// A dict of these fields, written beside and renamed. Folders on the way are made; a symbolic link
// stays, what it leads to is replaced. kUsage: the path is, or leads to, a device, a pipe, or one
// of the files that a run keeps in its directory.
Status save_pt(const std::string& path, const PtFields& fields);
// The state_dict itself, as torch.save(model.state_dict(), path).
Status save_pt(const std::string& path, const torch::nn::Module& module);
// Of a dict: its fields with text as keys, in its order; lists of numbers as doubles.
Result<PtFields> load_pt(const std::string& path);
// None where there is no such file.
Result<std::optional<PtFields>> load_pt_if_there(const std::string& path);
// The field of that name, if it holds a T; else nullptr. (Fields is PtFields, whose tensors only
// the caller's file needs to know.)
template <class T, class Fields = PtFields>
const T* pt_field(const Fields& fields, std::string_view name) {
  for (const auto& [key, value] : fields)
    if (key == name) return std::get_if<T>(&value);
  return nullptr;
}
// Into the module's tensors: the state_dict under `key`, or the file's own; a file of C++'s
// torch::save(module, path) or of torch.jit.save(); a safetensors file; or the part "model" of a
// checkpoint (its folder, `checkpoints/best` or `last`) or of a run directory's newest whole one,
// verified by its hashes.
//
//   LOCKSTEP_TRY(lockstep::load_state_dict(*generator, "runs/1", "generator"));
//
// In a checkpoint `key` is a module's name in the train state (Trainer's is "model"), or that of a
// group of one's own tensors; an unknown one is kBadData, which lists those there are. Where there
// is only one module it says nothing. A checkpoint without a map of its modules (of a run before
// there were maps, or save_checkpoint()'s) has the module "NAME" in a part of that name or as those
// tensors of "model" that begin with "NAME."; both is ambiguous, kBadData; neither: as if no key
// were given.
//
// Names, shapes and dtypes must match: else kBadData with the nearest names, nothing changed. Equal
// names match first; then the components "module" (DistributedDataParallel's) and "_orig_mod"
// (torch.compile's) are left out, wherever they are. Of tied weights one name is enough.
Status load_state_dict(torch::nn::Module& module, const std::string& path,
                       const std::string& key = "");

// PyTorch's: with `strict = false` the names need not match, and those that do not are given back.
// Shapes and dtypes of those that do must.
//
//   LOCKSTEP_ASSIGN(const lockstep::IncompatibleKeys keys,
//                   lockstep::load_state_dict(*model, "weights.safetensors", {.strict = false}));
struct LoadStateDictOptions {
  bool strict = true;
};
struct IncompatibleKeys {
  std::vector<std::string> missing_keys;     // of the module, in its order
  std::vector<std::string> unexpected_keys;  // of the file, in its order
};
Result<IncompatibleKeys> load_state_dict(torch::nn::Module& module, const std::string& path,
                                         const std::string& key,
                                         const LoadStateDictOptions& options);
Result<IncompatibleKeys> load_state_dict(torch::nn::Module& module, const std::string& path,
                                         const LoadStateDictOptions& options);
// Into the optimizer, by its load_state_dict() (lockstep/optim.h): torch.optim's state_dict under
// `key` of a .pt file, or the file's own. What does not fit is kBadData, nothing changed. The
// optimizer of a checkpoint comes back by load_checkpoint().
Status load_state_dict(Optimizer& optimizer, const std::string& path, const std::string& key = "");

}  // namespace lockstep

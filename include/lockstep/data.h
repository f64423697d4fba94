// Data: sets of samples, the order in which a run reads them, and the loader that makes batches of
// it.
//
// Which samples virtual worker v reads at (epoch, step) is a pure function of a DataPlan. Nothing
// here knows ranks, and nothing depends on the number of threads or on the order in which shares
// are asked for (docs/design/arithmetic.md).
//
// Errors: kUsage for a plan or an index out of range, kBadData for files; no exception leaves.
// Threads: Dataset::get() and DataOrder may be used from many threads, a Loader from one.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/status.h"

namespace at {
struct Generator;
}

namespace lockstep::data {

// -------------------------------------------------------------------------------------------------
// datasets

struct Batch {
  at::Tensor inputs;              // [B, ...]
  at::Tensor targets;             // [B, ...]
  std::vector<std::int64_t> ids;  // B: what was delivered, for the ledger
  // From a Loader, B or none: the ids of the order, where they are not those above. ids[i] stands
  // in for asked[i], a damaged sample.
  std::vector<std::int64_t> asked = {};

  std::int64_t size() const { return inputs.defined() ? inputs.size(0) : 0; }  // B
};

// What random augmentation may depend on besides the sample's id.
struct Pass {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  bool training = false;
};

// Samples 0..size()-1 of fixed content. Equal arguments give equal bits, on any thread, in any
// order. Random augmentation is a function of Pass and the ids (transforms.h has torchvision's,
// each sample with a stream of its own). What get() draws from PyTorch's default generator is
// seeded anew for each batch of a run, by (seed, step, virtual worker): as exact, and kUsage with
// RunOptions::prefetch_threads, whose threads would share that generator with the model.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual std::int64_t size() const = 0;
  // One batch of these samples, in this order; the tensors are the caller's. Damaged samples may be
  // left out of inputs, targets and ids: a function of the sample, whatever the pass and the others
  // of its batch. In training a Loader delivers the next sound one in their place; an evaluation
  // goes without them, and without a call of its function where the batch is empty
  // (docs/design/arithmetic.md, section 3). What cannot be read, and may be elsewhere, is an error.
  // Out of range ids: kUsage.
  virtual Result<Batch> get(std::span<const std::int64_t> ids, const Pass& pass) const = 0;
  // Of a sample that get() has left out: its name and what is wrong with it, for people to read.
  // Default: nothing is known.
  virtual std::string why_left_out(std::int64_t id) const {
    static_cast<void>(id);
    return {};
  }
  // Of all samples, inputs and targets: another text for another content, so that a run is neither
  // resumed nor joined with changed data. What is too much to read at a start may be told by names
  // and sizes, as folders of pictures are. Asked for once at a start, beside 16 samples spread over
  // the set, which are read and count as well. Default: none; then they alone stand for the set.
  virtual std::string fingerprint() const { return {}; }
};

enum class Split { kTrain, kTest };

// MNIST or a set in its format: IDX files, plain or .gz, in FOLDER/MNIST/raw (torchvision's
// layout), FOLDER/raw or FOLDER. Inputs float32 [B, 1, rows, columns] with the bits of
// torchvision's ToTensor (value / 255), targets int64 [B]. Holds the images as bytes (47 MB for
// MNIST's training set).
Result<std::shared_ptr<const Dataset>> open_mnist(const std::string& folder, Split split);

// What `--data` takes: `synthetic`, digits drawn once (1.5 s) into
// $XDG_CACHE_HOME/lockstep/digits-v1 (or under ~/.cache), or a folder for open_mnist(). `side`: all
// come as side x side, by resized(); 0: as they are. kDisk when the digits cannot be written.
Result<std::shared_ptr<const Dataset>> open_images(const std::string& source, Split split,
                                                   std::int64_t side = 0);

// Tensors in memory, along their first dimension; `transform` (default: none) sees each batch
// before it is delivered.
using Transform = std::function<Batch(Batch, const Pass&)>;
Result<std::shared_ptr<const Dataset>> tensor_dataset(at::Tensor inputs, at::Tensor targets,
                                                      Transform transform = nullptr);

// torch.utils.data.Subset: sample i is sample ids[i] of `whole`, with that one's random stream.
Result<std::shared_ptr<const Dataset>> subset(std::shared_ptr<const Dataset> whole,
                                              std::vector<std::int64_t> ids);

// torch.utils.data.random_split(whole, lengths, torch.Generator().manual_seed(seed)), sample for
// sample. Lengths sum to the set's size. Fractions sum to 1; what rounding down leaves over goes to
// the first parts, one each.
using Parts = std::vector<std::shared_ptr<const Dataset>>;
Result<Parts> random_split(const std::shared_ptr<const Dataset>& whole,
                           const std::vector<std::int64_t>& lengths, std::uint64_t seed);
Result<Parts> random_split_fractions(const std::shared_ptr<const Dataset>& whole,
                                     const std::vector<double>& fractions, std::uint64_t seed);

// Its inputs [B, C, H, W], float32, scaled to [B, C, height, width] as by
// torch.nn.functional.interpolate(mode="bilinear", antialias=True), which torchvision's Resize is
// for tensors; those of that size stay as they are. Sides: 1 to 4096.
Result<std::shared_ptr<const Dataset>> resized(std::shared_ptr<const Dataset> whole,
                                               std::int64_t height, std::int64_t width);

// Unpacks NAME.tar, NAME.tar.gz or NAME.tgz into FOLDER/NAME, whole or not at all, and gives that
// path. At once if it was unpacked there before, by whomever; another process that is about it is
// waited for, as long as it lives, and that is said. Called before init() it runs once per node.
// Hard links to files before them in the archive and sparse files are unpacked as tar does.
// Errors: kBadData for an archive that is damaged, climbs out of its folder, or has symbolic links
// or devices in it; kUsage where FOLDER/NAME is something else; kDisk.
Result<std::string> unpack_once(const std::string& archive, const std::string& folder);

// -------------------------------------------------------------------------------------------------
// order

// torch.utils.data.DistributedSampler, equal index for index (PyTorch 2.11). `seed + epoch` wraps
// at 2^64.
struct DistributedSampler {
  std::int64_t dataset_size = 0;
  std::int64_t num_replicas = 1;
  std::int64_t rank = 0;
  bool shuffle = true;
  std::uint64_t seed = 0;
  bool drop_last = false;  // drops the tail that does not divide among the replicas; otherwise the
                           // head is repeated

  Status check() const;
  std::int64_t num_samples() const;  // of each replica
  std::int64_t total_size() const { return num_samples() * num_replicas; }
  // This replica's ids; `epoch` is what PyTorch's set_epoch() takes.
  Result<std::vector<std::int64_t>> order(std::uint64_t epoch) const;
  // All replicas' ids: that of replica r at its position i stands at i * num_replicas + r.
  Result<std::vector<std::int64_t>> whole_order(std::uint64_t epoch) const;
};

// One epoch's order of DataLoader(shuffle=True) in one process, drawn from `generator` (PyTorch's
// default generator there): base seed, sampler seed, then randperm(n) of the latter.
std::vector<std::int64_t> dataloader_order(at::Generator& generator, std::int64_t n);
// The same of the PyTorch of 2019: base seed, then randperm(n), both from `generator`.
std::vector<std::int64_t> legacy_order(at::Generator& generator, std::int64_t n);

// A CPU generator's state as bytes, equal to torch.Generator.get_state().numpy().tobytes().
std::string generator_state(const at::Generator& generator);
Status set_generator_state(at::Generator& generator, std::string_view state);  // kBadData
std::string default_generator_state();  // of at::detail::getDefaultCPUGenerator()

enum class Shuffle {
  kSequential,   // 0, 1, 2, ...: DistributedSampler(shuffle=False)
  kDistributed,  // DistributedSampler whose set_epoch is never called: epoch 0's order again and
                 // again
  kReshuffle,    // DistributedSampler with set_epoch(epoch) at each epoch
  kDataLoader,   // dataloader_order(), one virtual worker
  kLegacy,       // legacy_order(), one virtual worker
  // Virtual worker v reads the v-th of V equal stretches of the set, in order: rows of a text or of
  // a recording, each of which goes on from step to step. What does not fill V stretches (the
  // set's last size % V samples) is left out, so that no stretch goes on with another's beginning.
  kRows,
};
const char* to_string(Shuffle shuffle);
// sequential, distributed, reshuffle, dataloader, legacy, rows
Result<Shuffle> parse_shuffle(std::string_view name);

// Where a run is in its data: about to read step `step` of epoch `epoch`.
struct Cursor {
  std::uint64_t epoch = 0;
  std::int64_t step = 0;
  friend bool operator==(const Cursor&, const Cursor&) = default;
};

// A run's data, fixed from its first start.
struct DataPlan {
  std::int64_t dataset_size = 0;
  std::int64_t virtual_workers = 1;
  std::int64_t batch_size = 1;  // of each virtual worker
  std::uint64_t seed = 0;
  Shuffle shuffle = Shuffle::kReshuffle;
  bool drop_last = false;        // DistributedSampler's
  bool drop_last_batch = false;  // DataLoader's: a last batch shorter than batch_size is left out
  // kDataLoader and kLegacy: the default generator's after the model was made.
  std::string generator_state = {};

  Status check() const;                     // kUsage, with the value and the limit
  std::int64_t samples_per_worker() const;  // per epoch, of each virtual worker; equal for all
  std::int64_t steps_per_epoch() const;     // at least 1 in a plan that passes check()
  std::int64_t batch_at(std::int64_t step) const;  // samples of each virtual worker at this step
  // Number of a step in the whole run, from 0, and back.
  std::uint64_t global_step(const Cursor& at) const;
  Cursor cursor(std::uint64_t global_step) const;
};

// The ids of a plan's shares. The last epochs' orders are kept, so that neighbours cost nothing.
class DataOrder {
 public:
  static Result<std::shared_ptr<DataOrder>> make(DataPlan plan);
  virtual ~DataOrder() = default;
  virtual const DataPlan& plan() const = 0;
  // What virtual worker v reads at `at`; plan().batch_at(at.step) ids.
  virtual Result<std::vector<std::int64_t>> ids(const Cursor& at, std::int64_t v) = 0;
};

// -------------------------------------------------------------------------------------------------
// loader

// One virtual worker's part of a step.
struct ShareId {
  Cursor at;
  std::int64_t v = 0;
  friend bool operator==(const ShareId&, const ShareId&) = default;
};

struct LoaderOptions {
  int prefetch_threads = 0;  // 0: everything is computed inside get()
  // How long get() waits for what a thread has begun: kTimedOut. What it makes itself has no limit.
  // none: as long as it takes; a read that hangs is ended with the process.
  std::optional<std::chrono::seconds> patience = {};
};

// Batches of a plan's shares, any share at any time; each of the size that the plan says. A sample
// that the data set leaves out as damaged *is* the next one that it does not, in the set's order (i
// + 1 and so on, after the last the first): its content, label, id and random stream, as though the
// order had that one there. Said once in a run for each of the first 20 (Dataset::why_left_out).
// kBadData if none is left. Threads start at the first get() or prefetch() (after a fork point) and
// are joined by the destructor. A batch of pictures (lockstep/vision.h) of known size is shared
// among the threads that are free, and get() takes part in it.
class Loader {
 public:
  static Result<std::unique_ptr<Loader>> make(std::shared_ptr<const Dataset> dataset, DataPlan plan,
                                              LoaderOptions options = {});
  virtual ~Loader() = default;
  virtual const DataPlan& plan() const = 0;
  virtual Result<Batch> get(const ShareId& share) = 0;
  // Says what will be asked for next, in place of what was said before; computed ahead in this
  // order, as threads are free. It holds at most these batches in memory. A hint only: it changes
  // no bit of any batch.
  virtual void prefetch(std::vector<ShareId> next) = 0;
  // Damaged samples, so far, among those that this loader has looked at.
  virtual std::int64_t left_out() const = 0;
};

// Evaluation reads each sample once, in order, unpadded: batch i holds ids i * batch_size to
// min(size, (i + 1) * batch_size) - 1, less what the set leaves out: it may be empty (size() 0).
std::int64_t evaluation_batches(std::int64_t size, std::int64_t batch_size);
Result<Batch> evaluation_batch(const Dataset& dataset, std::int64_t batch_size, std::int64_t index);

}  // namespace lockstep::data

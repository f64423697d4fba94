#include "train/run.h"

#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <cinttypes>
#include <cstdio>
#include <filesystem>

#include "base/guard.h"
#include "base/hash.h"
#include "base/log.h"
#include "train/lines.h"
#include "worker/session.h"

namespace lockstep::train {

Run::Run(Context& context, TrainState& state, RunOptions options)
    : context_(context), options_(std::move(options)), state_(state) {}

Status Run::open(std::shared_ptr<const data::Dataset> train,
                 std::shared_ptr<const data::Dataset> test) {
  train_ = std::move(train);
  test_ = std::move(test);
  started_ns_ = monotonic_ns();
  LOCKSTEP_TRY(check_options());
  std::error_code code;
  options_.output = std::filesystem::absolute(options_.output, code).lexically_normal().string();
  LOCKSTEP_TRY(posix_env().make_dirs(options_.output));
  LOCKSTEP_ASSIGN(const int virtual_workers, choose_virtual_workers());
  LOCKSTEP_TRY(prepare_data(virtual_workers));
  LOCKSTEP_TRY(make_manifest());
  return take_part();
}

Status Run::check_options() const {
  const auto wrong = [](const std::string& what) { return Error{ErrorKind::kUsage, what}; };
  if (train_ == nullptr) return wrong("a run needs a training set");
  if (state_.optimizers().empty()) return wrong("the train state has no optimizer; add one");
  if (options_.epochs < 1)
    return wrong("--epochs is " + std::to_string(options_.epochs) + "; at least 1");
  if (options_.batch_size < 1)
    return wrong("--batch-size is " + std::to_string(options_.batch_size) + "; at least 1");
  if (options_.max_steps < 0)
    return wrong("--max-steps is " + std::to_string(options_.max_steps) +
                 "; at least 0 (no limit)");
  if (options_.evaluation_batch_size < 1)
    return wrong("evaluation_batch_size is " + std::to_string(options_.evaluation_batch_size) +
                 "; at least 1");
  if (test_ != nullptr && test_->size() < 1) return wrong("the test set is empty");
  const auto most = static_cast<int>(coord::kMaxVirtualWorkers);
  if (options_.virtual_workers < 0 || options_.virtual_workers > most)
    return wrong("--virtual-workers is " + std::to_string(options_.virtual_workers) + "; 1 to " +
                 std::to_string(most) + ", or 0 for the number of workers");
  return {};
}

// The option, else the existing run's, else the number of workers asked for.
Result<int> Run::choose_virtual_workers() {
  Result<std::optional<RunManifest>> before = read_manifest(posix_env(), options_.output);
  // What is there counts for nothing with `never`, damaged or not.
  if (!before.ok() && options_.resume != "never") return std::move(before).error();
  if (before.ok()) before_ = *std::move(before);
  int chosen = options_.virtual_workers;
  if (chosen == 0 && before_.has_value() && options_.resume != "never") {
    LOCKSTEP_ASSIGN(const std::uint32_t then, before_->virtual_workers());
    chosen = static_cast<int>(then);
  }
  if (chosen == 0) chosen = context_.world_size();
  if (context_.world_size() > chosen && !context_.session().identity().newcomer)
    return Error{ErrorKind::kUsage,
                 "--nproc-per-node is " + std::to_string(context_.world_size()) +
                     ", but the run has " + std::to_string(chosen) +
                     " virtual workers, and each worker needs at least one: use at most " +
                     std::to_string(chosen) + " workers (or more --virtual-workers for a new run)"};
  return chosen;
}

Status Run::prepare_data(int virtual_workers) {
  data_plan_.dataset_size = train_->size();
  data_plan_.virtual_workers = virtual_workers;
  data_plan_.batch_size = options_.batch_size;
  data_plan_.seed = options_.seed;
  data_plan_.shuffle = options_.shuffle;
  if (options_.shuffle == data::Shuffle::kLegacy || options_.shuffle == data::Shuffle::kDataLoader)
    data_plan_.generator_state = data::default_generator_state();
  LOCKSTEP_TRY(data_plan_.check());
  plan_.steps_per_epoch = data_plan_.steps_per_epoch();
  plan_.epochs = options_.epochs;
  plan_.max_steps = options_.max_steps;
  plan_.evaluates = test_ != nullptr && evaluation != nullptr;
  LOCKSTEP_ASSIGN(loader_, data::Loader::make(train_, data_plan_, {options_.prefetch_threads}));
  return {};
}

Status Run::make_manifest() {
  for (const auto& [key, value] : options_.identity) manifest_.set(key, value);
  manifest_.set("format", 1);
  manifest_.set("program", options_.name);
  manifest_.set("virtual_workers", data_plan_.virtual_workers);
  manifest_.set("batch_size", data_plan_.batch_size);
  manifest_.set("seed", std::to_string(data_plan_.seed));
  manifest_.set("shuffle", data::to_string(data_plan_.shuffle));
  if (!data_plan_.generator_state.empty())
    manifest_.set("generator_state_sha256", sha256_hex(data_plan_.generator_state));
  manifest_.set("dataset_size", data_plan_.dataset_size);
  manifest_.set("evaluates", plan_.evaluates ? "yes" : "no");
  manifest_.set("initial_weights_sha256", state_.weights_sha256());
  for (std::size_t i = 0; i < state_.optimizers().size(); ++i)
    manifest_.set("optimizer_" + std::to_string(i), state_.optimizers()[i]->settings());
  manifest_.set("threads", context_.threads());
  manifest_.set("torch", TORCH_VERSION);
  manifest_.set("cpu_capability", at::get_cpu_capability());
  const std::vector<std::int64_t> probe{0, data_plan_.dataset_size / 2,
                                        data_plan_.dataset_size - 1};
  LOCKSTEP_ASSIGN(const data::Batch batch,
                  guarded("the data set's first batch", ErrorKind::kInternal,
                          [&] { return train_->get(probe, {}); }));
  const at::Tensor inputs = batch.inputs.contiguous();
  char hash[17];
  std::snprintf(hash, sizeof(hash), "%016" PRIx64,
                xxh3({static_cast<const std::byte*>(inputs.const_data_ptr()), inputs.nbytes()}));
  manifest_.set("dataset_probe_xxh3", hash);
  return {};
}

// Tells the launcher what this worker runs, and brings the state: from a live peer, a checkpoint,
// or as it was made.
Status Run::take_part() {
  worker::Session& session = context_.session();
  ParticipantOptions options;
  options.board.virtual_workers = static_cast<std::uint32_t>(data_plan_.virtual_workers);
  options.board.ids_capacity = static_cast<std::uint32_t>(data_plan_.batch_size);
  options.board.ring = coord::ring_for(options.board.virtual_workers, options.board.ids_capacity);
  if (plan_.evaluates)
    options.eval_items = static_cast<std::uint32_t>(
        data::evaluation_batches(test_->size(), options_.evaluation_batch_size));
  options.run_dir = options_.output;
  options.reducer.find_unused_parameters = options_.find_unused_parameters;

  worker::Description description;
  description.run_dir = options_.output;
  description.manifest = manifest_.json();
  description.parameters = state_.signature();
  description.board = options.board;
  description.virtual_workers = options.board.virtual_workers;
  description.total_txns = plan_.end().value();
  LOCKSTEP_ASSIGN(worker::Admission admission, session.describe(description));
  run_lock_ = std::move(admission.run_lock);
  LOCKSTEP_ASSIGN(participant_, Participant::create(session, state_, *this, options));
  checkpoints_ = std::make_unique<Checkpoints>(session, state_, options_, manifest_);
  if (admission.newcomer) return participant_->heal();
  LOCKSTEP_ASSIGN(const Txn next, starting_point(context_.rank() == 0, admission.checkpointed));
  return participant_->join(next);
}

Status Run::start_over() {
  for (const char* name :
       {"checkpoints", "incidents", "ledger.jsonl", "metrics.jsonl", "result.json", "config.toml"})
    LOCKSTEP_TRY(posix_env().remove_all(options_.output + "/" + name));
  return write_identity();
}

Status Run::write_identity() {
  if (!options_.config.empty())
    LOCKSTEP_TRY(write_atomically(posix_env(), options_.output + "/config.toml", options_.config));
  return write_manifest(posix_env(), options_.output, manifest_);
}

// The manifest comes last: a run that is refused leaves the directory as it was.
Result<Txn> Run::starting_point(bool first, bool checkpointed) {
  if (options_.resume == "never" && !checkpointed) {
    if (first) LOCKSTEP_TRY(start_over());
    return Txn(0);
  }
  if (before_.has_value())
    LOCKSTEP_TRY(manifest_.same_as(*before_, options_.output,
                                   options_.new_virtual_workers ? "virtual_workers" : ""));
  LOCKSTEP_ASSIGN(const std::optional<Txn> resumed, checkpoints_->load(plan_, checkpointed, first));
  if (first) LOCKSTEP_TRY(write_identity());
  return resumed.value_or(Txn(0));
}

Result<bool> Run::next() {
  using Turn = Participant::Turn;
  if (announced_)
    return Error{ErrorKind::kUsage,
                 "next() again before run(): each step that next() announces must be run"};
  LOCKSTEP_ASSIGN(const Turn turn, participant_->turn());
  switch (turn) {
    case Turn::kRun:
      announced_ = true;
      return true;
    case Turn::kStopped:
      if (participant_->first_live())
        LOCKSTEP_TRY(checkpoints_->save_now(plan_, participant_->next()));
      LOCKSTEP_TRY(context_.session().leave(participant_->next()));
      return Error{ErrorKind::kResumable, "stopped by the launcher; the same command goes on"};
    case Turn::kLeft:
      LOCKSTEP_TRY(context_.session().leave(participant_->next()));
      return Error{ErrorKind::kLeft, "taken out of the run, which goes on without this worker"};
    case Turn::kEnd:
      LOCKSTEP_TRY(participant_->close([this] { return last_words(); }));
      return false;
  }
  return false;
}

Status Run::last_words() {
  LOCKSTEP_TRY(checkpoints_->save_now(plan_, participant_->next()));
  if (finished) LOCKSTEP_TRY(guarded("on_finished()", ErrorKind::kInternal, finished));
  const std::uint64_t launched = participant_->board().header().started_ns.load();
  const double seconds =
      static_cast<double>(monotonic_ns() - (launched != 0 ? launched : started_ns_)) * 1e-9;
  const std::string weights = state_.weights_sha256();
  worker::Finale finale;
  finale.console =
      "Training complete in: " + duration_text(seconds) + "\nweights sha256 " + weights + "\n";
  finale.summary = "{\"weights_sha256\":\"" + weights + "\",\"state_sha256\":\"" + state_.sha256() +
                   "\",\"steps\":" + std::to_string(plan_.total_steps()) +
                   ",\"seconds\":" + std::to_string(seconds) + "}\n";
  return context_.session().finish(finale);
}

}  // namespace lockstep::train

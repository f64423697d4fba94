#include "train/run.h"

#include <ATen/Context.h>
#include <ATen/Version.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <utility>

#include "base/guard.h"
#include "base/hash.h"
#include "base/log.h"
#include "train/data_identity.h"
#include "train/lines.h"
#include "worker/session.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kMostTxns = std::int64_t{1} << 62;

}  // namespace

Run::Run(Context& context, TrainState& state, RunOptions options)
    : context_(context), options_(std::move(options)), state_(state) {}

Status Run::open(std::shared_ptr<const data::Dataset> train,
                 std::shared_ptr<const data::Dataset> test) {
  train_ = std::move(train);
  test_ = std::move(test);
  started_ns_ = monotonic_ns();
  LOCKSTEP_TRY(check_options());
  LOCKSTEP_ASSIGN(options_.output, absolute_path(options_.output));
  LOCKSTEP_TRY(posix_env().make_dirs(options_.output));
  LOCKSTEP_ASSIGN(const int virtual_workers, choose_virtual_workers());
  LOCKSTEP_TRY(prepare_data(virtual_workers));
  LOCKSTEP_TRY(make_manifest());
  return take_part();
}

// The option, else the existing run's, else the number of workers asked for.
Result<int> Run::choose_virtual_workers() {
  Result<std::optional<RunManifest>> before = read_manifest(posix_env(), options_.output);
  // What is there counts for nothing with `never`, damaged or not; but it must be a run's.
  if (!before.ok() && (options_.resume != "never" || before.error().kind == ErrorKind::kUsage))
    return std::move(before).error();
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
  if (const std::int64_t most = kMostTxns / (plan_.steps_per_epoch + 1); options_.epochs > most)
    return Error{ErrorKind::kUsage, "--epochs is " + std::to_string(options_.epochs) + "; with " +
                                        std::to_string(plan_.steps_per_epoch) +
                                        " steps an epoch at most " + std::to_string(most)};
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
  LOCKSTEP_TRY(add_data(manifest_, "dataset", *train_));
  return plan_.evaluates ? add_data(manifest_, "test_set", *test_) : Status();
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
  LOCKSTEP_TRY(write_manifest(posix_env(), options_.output, manifest_));
  if (options_.config.empty()) return {};
  return write_atomically(posix_env(), options_.output + "/config.toml", options_.config);
}

// A run that is refused leaves the directory as it was. One that is not writes its manifest before
// all else: without it the rest would be taken for somebody else's.
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
  LOCKSTEP_TRY(checkpoints_->save_last(plan_, participant_->next()));
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

std::uint32_t Run::items(Txn txn) const {
  if (is_step(txn)) return static_cast<std::uint32_t>(data_plan_.virtual_workers);
  return static_cast<std::uint32_t>(
      data::evaluation_batches(test_->size(), options_.evaluation_batch_size));
}

Status Run::before(Txn txn, bool first) {
  LOCKSTEP_TRY(checkpoints_->check());
  if (!first) return {};
  const Position position = plan_.at(txn);
  const bool due = options_.checkpoint_every > 0 && txn.value() > 0 &&
                   !(position.step == 0 && plan_.evaluates) &&
                   position.global_step % options_.checkpoint_every == 0;
  if (!due) return {};
  participant_->enter(coord::Phase::kSnapshot);
  LOCKSTEP_TRY(participant_->record_all());
  return checkpoints_->snapshot(plan_, txn);
}

Status Run::compute_share(Txn txn, VirtualWorker v, coord::ShareRecord& record) {
  const auto share = static_cast<std::uint32_t>(v.value());
  const Position position = plan_.at(txn);
  participant_->enter(coord::Phase::kData, share);
  LOCKSTEP_ASSIGN(
      const data::Batch batch,
      loader_->get({{static_cast<std::uint64_t>(position.epoch), position.step}, v.value()}));
  const auto wanted = static_cast<std::size_t>(data_plan_.batch_at(position.step));
  if (batch.ids.size() != wanted)
    return Error{ErrorKind::kUsage, "the data set was asked for " + std::to_string(wanted) +
                                        " samples and gave the ids of " +
                                        std::to_string(batch.ids.size()) +
                                        ": Batch::ids must be those that it was asked for"};
  hint_next(txn, share);
  record.ids_count = batch.ids.size();
  std::copy(batch.ids.begin(), batch.ids.end(), record.ids());
  const std::string where = "epoch " + std::to_string(position.epoch) + ", step " +
                            std::to_string(position.step) + ", virtual worker " +
                            std::to_string(v.value());
  return guarded(where, ErrorKind::kInternal,
                 [&] { return forward_backward(txn, v, batch, record); });
}

Status Run::forward_backward(Txn txn, VirtualWorker v, const data::Batch& batch,
                             coord::ShareRecord& record) {
  const auto share = static_cast<std::uint32_t>(v.value());
  // Dropout and its like: a stream of its own for each (seed, transaction, virtual worker).
  at::manual_seed(share_seed(options_.seed, txn, v));
  participant_->enter(coord::Phase::kForward, share);
  const Position position = plan_.at(txn);
  Share part;
  part.virtual_worker_ = v.value();
  part.epoch_ = position.epoch;
  part.step_ = position.step;
  part.global_step_ = position.global_step;
  part.batch_ = &batch;
  const at::Tensor loss_value = loss(part);
  if (loss_value.numel() != 1 || !loss_value.requires_grad())
    return Error{ErrorKind::kUsage,
                 "the loss function must return one number that depends on the model; got " +
                     std::to_string(loss_value.numel()) + " elements" +
                     (loss_value.requires_grad() ? "" : " without a graph")};
  participant_->enter(coord::Phase::kBackward, share);
  loss_value.backward();
  const auto samples = static_cast<double>(batch.ids.size());
  record.loss_sum = loss_value.item<double>() * samples;
  record.loss_count = batch.ids.size();
  record.extra = optimizer;
  record.rate = state_.optimizers()[optimizer]->lr();
  return {};
}

// Only hints: which share comes next changes with the membership, the batches never.
void Run::hint_next(Txn txn, std::uint32_t current) {
  if (options_.prefetch_threads == 0) return;
  std::vector<data::ShareId> next;
  const auto add = [&](Txn t, std::uint32_t v) {
    const Position position = plan_.at(t);
    if (t < plan_.end() && !position.epoch_end)
      next.push_back({{static_cast<std::uint64_t>(position.epoch), position.step},
                      static_cast<std::int64_t>(v)});
  };
  const comm::Exchange& exchange = participant_->exchange();
  const auto& own = exchange.ownership().items_of(exchange.self());
  const auto at = std::find(own.begin(), own.end(), current);
  for (auto v = at == own.end() ? at : at + 1; v != own.end(); ++v) add(txn, *v);
  for (const std::uint32_t v : own) add(Txn(txn.value() + 1), v);
  loader_->prefetch(std::move(next));
}

Status Run::compute_batch(Txn, std::uint32_t index, comm::EvalCell& cell) {
  const at::NoGradGuard no_grad;
  LOCKSTEP_ASSIGN(const data::Batch batch,
                  data::evaluation_batch(*test_, options_.evaluation_batch_size, index));
  return guarded("evaluation batch " + std::to_string(index), ErrorKind::kInternal,
                 [&]() -> Status {
                   const Score score = evaluation(batch);
                   cell.loss_sum = score.loss_sum;
                   cell.correct = score.correct;
                   cell.count = static_cast<std::uint64_t>(score.count);
                   return {};
                 });
}

Status Run::run_next() {
  if (!std::exchange(announced_, false))
    return Error{ErrorKind::kUsage, "run() without next(): next() announces each step, once"};
  return participant_->run();
}

Result<Lines> Run::apply(Txn txn, coord::Board board, comm::Exchange& exchange) {
  if (!is_step(txn)) return evaluation_lines(txn, exchange);
  LOCKSTEP_TRY(check_rates(txn, board));
  return step_lines(txn, board);
}

// Each worker has updated with its own rate.
Status Run::check_rates(Txn txn, coord::Board board) const {
  const double mine = state_.optimizers()[optimizer_of(txn, board)]->lr();
  for (int v = 0; v < data_plan_.virtual_workers; ++v) {
    const double rate = board.record(txn, VirtualWorker(v)).rate;
    if (rate != mine)
      return Error{
          ErrorKind::kUsage,
          "step " + std::to_string(plan_.at(txn).global_step) + ": the worker of virtual worker " +
              std::to_string(v) + " has learning rate " + std::to_string(rate) + ", this one " +
              std::to_string(mine) +
              ": what a loop sets must be a function of the step, the same in all workers"};
  }
  return {};
}

// A newcomer has not seen the loop's choice: the share's record has it.
std::size_t Run::optimizer_of(Txn txn, coord::Board board) const {
  return board.record(txn, VirtualWorker(0)).extra;
}

Lines Run::step_lines(Txn txn, coord::Board board) const {
  const Position position = plan_.at(txn);
  double sum = 0;
  std::uint64_t samples = 0;
  for (int v = 0; v < data_plan_.virtual_workers; ++v) {
    const coord::ShareRecord& record = board.record(txn, VirtualWorker(v));
    sum += record.loss_sum;
    samples += record.loss_count;
  }
  const coord::ShareRecord& first = board.record(txn, VirtualWorker(0));
  const double loss_value = first.loss_sum / static_cast<double>(first.loss_count);
  Lines lines;
  lines.metrics =
      step_metrics(txn, position, loss_value, sum / static_cast<double>(samples), samples);
  if (options_.log_every > 0 && (position.step + 1) % options_.log_every == 0)
    lines.console = step_line(position, plan_, loss_value);
  return lines;
}

Lines Run::evaluation_lines(Txn txn, comm::Exchange& exchange) const {
  const Position position = plan_.at(txn);
  double loss_sum = 0, correct = 0;
  std::int64_t count = 0;
  for (std::uint32_t i = 0; i < items(txn); ++i) {
    const comm::EvalCell& cell = exchange.eval(i);
    loss_sum += cell.loss_sum;
    correct += cell.correct;
    count += static_cast<std::int64_t>(cell.count);
  }
  return {evaluation_line(position, plan_, loss_sum, correct, count),
          evaluation_metrics(txn, position, loss_sum, correct, count)};
}

}  // namespace lockstep::train

#include "train/run.h"

#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <utility>

#include "base/guard.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/run_lock.h"
#include "base/text.h"
#include "checkpoint/store.h"
#include "train/data_identity.h"
#include "train/lines.h"
#include "train/session_of.h"

namespace lockstep::train {
namespace {

constexpr std::uint64_t kResultLimitBytes = 4096;
constexpr const char* kStartEpoch = "start_epoch";
constexpr std::int64_t kMostTxns = std::int64_t{1} << 62;

// With the number of virtual workers that 0 came to.
std::string resolved(std::string config, std::int64_t virtual_workers) {
  const std::string unknown = "virtual-workers=0\n";
  const auto at = config.find(unknown);
  if (at == std::string::npos || (at != 0 && config[at - 1] != '\n')) return config;
  return config.replace(at, unknown.size(),
                        "virtual-workers=" + std::to_string(virtual_workers) + "\n");
}

}  // namespace

Run::Run(Context& context, TrainState& state, RunOptions options)
    : context_(context), options_(std::move(options)), state_(state) {}

Run::~Run() {
  if (participant_ == nullptr || over_ || context_.launched()) return;  // else the launcher says so
  log_warning("the loop has left the run before its end, after " +
              std::to_string(global_step(at())) + " of " + std::to_string(total_steps()) +
              " steps: there is no final checkpoint. Share::end_run() ends a run early");
}

Status Run::open(std::shared_ptr<const data::Dataset> train,
                 std::shared_ptr<const data::Dataset> test) {
  train_ = std::move(train);
  test_ = std::move(test);
  started_ns_ = monotonic_ns();
  return guarded("the run's start", ErrorKind::kInternal, [&] { return begin(); });
}

Status Run::begin() {
  LOCKSTEP_TRY(check_options());
  LOCKSTEP_ASSIGN(options_.output, absolute_path(options_.output));
  LOCKSTEP_ASSIGN(const int virtual_workers, choose_virtual_workers());
  LOCKSTEP_TRY(prepare_data(virtual_workers));
  LOCKSTEP_TRY(bring_origin());
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
  if (context_.world_size() > chosen && !session_of(context_).identity().newcomer)
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
  plan_.exports = epochs.exports != nullptr;
  plan_.ends_epochs =
      epochs.book != nullptr && (evaluates() || plan_.exports || epochs.lines != nullptr ||
                                 !epochs.schedules.empty() || epochs.best_of != BestOf::kNothing);
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
  manifest_.set("evaluates", evaluates() ? "yes" : "no");
  if (plan_.ends_epochs && !evaluates()) manifest_.set("ends_epochs", "yes");
  if (plan_.exports) manifest_.set("exports", "yes");
  if (epochs.best_of != BestOf::kNothing)
    manifest_.set("best_of", static_cast<std::int64_t>(epochs.best_of));
  manifest_.set("initial_weights_sha256",
                origin_ ? origin_->weights_sha256 : state_.weights_sha256());
  if (origin_) manifest_.set(kStartEpoch, origin_->epoch);
  for (std::size_t i = 0; i < state_.optimizers().size(); ++i)
    manifest_.set("optimizer_" + std::to_string(i), state_.optimizers()[i]->settings());
  for (std::size_t i = 0; i < state_.schedulers().size(); ++i)
    manifest_.set("scheduler_" + std::to_string(i), state_.schedulers()[i]->settings());
  if (options_.clip_grad_norm > 0)
    manifest_.set("clip_grad_norm", shortest(options_.clip_grad_norm));
  manifest_.set("threads", context_.threads());
  manifest_.set("torch", TORCH_VERSION);
  manifest_.set("cpu_capability", at::get_cpu_capability());
  LOCKSTEP_TRY(add_data(manifest_, "dataset", *train_));
  return evaluates() ? add_data(manifest_, "test_set", *test_) : Status();
}

// Tells the launcher what this worker runs, and brings the state: from a live peer, a checkpoint,
// or as it was made.
Status Run::take_part() {
  worker::Session& session = session_of(context_);
  ParticipantOptions options;
  options.board.virtual_workers = static_cast<std::uint32_t>(data_plan_.virtual_workers);
  options.board.ids_capacity = static_cast<std::uint32_t>(data_plan_.batch_size);
  options.board.ring = coord::ring_for(options.board.virtual_workers, options.board.ids_capacity);
  options.eval_items = plan_.ends_epochs ? evaluation_batches() : 0;
  options.board.epoch_ends = static_cast<std::uint32_t>(plan_.txns_behind_epoch());
  if (origin_) options.board.first_txn = plan_.epoch_start(origin_->epoch).value();
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
  checkpoints_ =
      std::make_unique<Checkpoints>(session, state_, options_, manifest_, run_lock_.get());
  if (admission.newcomer) return participant_->heal();
  LOCKSTEP_TRY(check_run_directory(options_.output, run_lock_.get()));  // else from nothing again
  LOCKSTEP_ASSIGN(const Txn next, starting_point(context_.rank() == 0, admission.checkpointed));
  return participant_->join(next);
}

Status Run::start_over() {
  for (const char* name : kRunNames)
    LOCKSTEP_TRY(posix_env().remove_all(options_.output + "/" + name));
  return write_identity();
}

Status Run::write_identity() {
  LOCKSTEP_TRY(write_manifest(posix_env(), options_.output, manifest_));
  if (options_.config.empty()) return {};
  return write_atomically(posix_env(), options_.output + "/config.toml",
                          resolved(options_.config, data_plan_.virtual_workers));
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
  LOCKSTEP_ASSIGN(std::optional<Txn> start, checkpoints_->load(plan_, checkpointed, first));
  if (!start && origin_) {
    if (!origin_->here)
      return Error{ErrorKind::kBadData,
                   "the run in '" + options_.output +
                       "' began from weights of elsewhere, of which it has no checkpoint yet, and "
                       "they are not there any more; --resume never starts over"};
    start = plan_.epoch_start(origin_->epoch);
    if (first)
      log_info("goes on at the start of epoch " + std::to_string(origin_->epoch) +
               " with weights of elsewhere; the optimizer's state begins anew");
  }
  if (first) LOCKSTEP_TRY(write_identity());
  if (first && start && resumed) {
    const Position position = plan_.at(*start);
    resumed(position.epoch, position.step);
  }
  if (first && start && *start >= plan_.end()) say_finished(*start);
  return start.value_or(Txn(0));
}

// A run begins elsewhere at its first start alone; from then on its manifest says so. Started again
// before its first checkpoint, it needs those weights again, and no others.
Status Run::bring_origin() {
  const bool there = before_.has_value() && options_.resume != "never";
  if (there) {
    const auto epoch = before_->number(kStartEpoch);
    if (!epoch) return {};
    origin_ = {*epoch, before_->value("initial_weights_sha256"), false};
  }
  const bool elsewhere = options_.resume != "auto" && !there;  // a path; or never
  if (!start_from || elsewhere || session_of(context_).identity().newcomer) return {};
  LOCKSTEP_ASSIGN(const auto saved, checkpoint::list_steps(posix_env(), options_.output));
  if (!saved.empty()) return {};
  LOCKSTEP_ASSIGN(const std::optional<std::int64_t> epoch, start_from());
  if (!epoch) return {};
  if (*epoch < 0 || *epoch > plan_.epochs)
    return Error{ErrorKind::kUsage, "Trainer::start_from() gave epoch " + std::to_string(*epoch) +
                                        "; the run has " + std::to_string(plan_.epochs) +
                                        " (--epochs)"};
  const std::string weights = state_.weights_sha256();
  if (!there) origin_ = {*epoch, weights, true};
  origin_->here = origin_->epoch == *epoch && origin_->weights_sha256 == weights;
  return {};
}

// What the run began from may be what an export is about to write over.
Status Run::secure_origin(Txn txn) {
  if (!origin_) return {};
  const auto steps = [&] { return checkpoint::list_steps(posix_env(), options_.output); };
  LOCKSTEP_ASSIGN(const auto before, steps());
  if (!before.empty()) return {};
  LOCKSTEP_TRY(participant_->record_all());
  LOCKSTEP_TRY(checkpoints_->save(plan_, txn));
  LOCKSTEP_ASSIGN(const auto after, steps());
  if (!after.empty()) return {};
  return Error{ErrorKind::kDisk,
               "not written, as there is no checkpoint yet: it may be what the run began from"};
}

void Run::say_finished(Txn committed) const {
  const std::string steps = std::to_string(plan_.at(committed).global_step);
  if (plan_.ended_early)
    return log_info("the run in '" + options_.output + "' was ended by its program after " + steps +
                    " steps (Share::end_run): there is nothing left to train. To go on from "
                    "there: another --output, and its checkpoint as --resume PATH");
  log_info("the run in '" + options_.output + "' has " + steps + " steps, and " +
           std::to_string(plan_.total_steps()) +
           " are asked for (--epochs, --max-steps): there is nothing left to train");
}

Result<bool> Run::next() {
  const auto where = [&] { return "before step " + std::to_string(global_step(at())); };
  Result<bool> more = guarded(where, ErrorKind::kInternal, [&] { return announce(); });
  over_ = !more.ok() || !*more;
  return more;
}

Result<bool> Run::announce() {
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
      if (participant_->first_live()) LOCKSTEP_TRY(checkpoints_->save(plan_, participant_->next()));
      LOCKSTEP_TRY(session_of(context_).leave(participant_->next()));
      return Error{ErrorKind::kResumable, "stopped by the launcher; the same command goes on"};
    case Turn::kLeft:
      LOCKSTEP_TRY(session_of(context_).leave(participant_->next()));
      return Error{ErrorKind::kLeft, "taken out of the run, which goes on without this worker"};
    case Turn::kEnd:
      LOCKSTEP_TRY(participant_->close([this] { return last_words(); }));
      return false;
  }
  return false;
}

// The record that there is begins as this one.
bool Run::has_recorded(const std::string& result) const {
  const auto there = posix_env().read(options_.output + "/result.json", kResultLimitBytes);
  return there.ok() && there->starts_with(result);
}

Status Run::last_words() {
  LOCKSTEP_TRY(checkpoints_->save(plan_, participant_->next()));
  if (finished) LOCKSTEP_TRY(guarded("on_finished()", ErrorKind::kInternal, finished));
  const std::uint64_t launched = participant_->board().header().started_ns.load();
  const double seconds =
      static_cast<double>(monotonic_ns() - (launched != 0 ? launched : started_ns_)) * 1e-9;
  const std::string weights = state_.weights_sha256();
  worker::Finale finale;
  finale.console =
      "Training complete in: " + duration_text(seconds) + "\nweights sha256 " + weights + "\n";
  const std::string result =
      "{\"weights_sha256\":\"" + weights + "\",\"state_sha256\":\"" + state_.sha256() +
      "\",\"steps\":" + std::to_string(plan_.at(participant_->next()).global_step) + ",";
  if (trained_ || !has_recorded(result))
    finale.summary = result + "\"seconds\":" + std::to_string(seconds) + "}\n";
  return session_of(context_).finish(finale);
}

}  // namespace lockstep::train

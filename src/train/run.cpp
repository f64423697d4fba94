#include "train/run.h"

#include <ATen/Context.h>

#include <algorithm>
#include <typeinfo>
#include <utility>

#include "base/guard.h"
#include "base/log.h"
#include "base/text.h"
#include "checkpoint/store.h"
#include "checkpoint/user_file.h"
#include "context/session_of.h"
#include "lockstep/checkpoint.h"
#include "rundir/lock.h"
#include "train/batches_of_one.h"
#include "train/carried_rows.h"
#include "train/closing_remarks.h"
#include "train/determinism.h"
#include "train/finale.h"

namespace lockstep::training {

Run::Run(Context& context, TrainState& state, RunOptions options, EpochBook* book)
    : context_(context), state_(state), epoch_ends_(spec_, hooks, book) {
  spec_.options = std::move(options);
}

Run::~Run() {
  if (participant_ == nullptr || over_ || context_.launched()) return;  // else the launcher says so
  log_warning("the loop has left the run before its end, after " +
              std::to_string(global_step(at())) +
              (spec_.plan.knows_its_end() ? " of " + std::to_string(total_steps()) : "") +
              " steps: there is no final checkpoint. Share::end_run() ends a run early");
}

namespace {

class Busy {
 public:
  explicit Busy(bool& busy) : busy_(busy) { busy_ = true; }
  ~Busy() { busy_ = false; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  bool& busy_;
};

}  // namespace

Status Run::open(std::shared_ptr<const data::Dataset> train,
                 std::shared_ptr<const data::Dataset> test) {
  refuse_within("open()");
  spec_.train = std::move(train);
  spec_.test = std::move(test);
  started_ns_ = monotonic_ns();
  const Busy busy(busy_);
  Status status = guarded("the run's start", ErrorKind::kInternal, [&] { return begin(); });
  over_ = !status.ok();
  return status;
}

// So that newcomers and checkpoints have it. The state may outlive this.
TrainState::Text Run::first_txn() const {
  const auto save = [held = std::weak_ptr(plan_)] {
    const auto plan = held.lock();
    return plan == nullptr || plan->first_txn == 0 ? "" : std::to_string(plan->first_txn);
  };
  const auto load = [held = std::weak_ptr(plan_)](const std::string& text) -> Status {
    if (const auto plan = held.lock()) plan->first_txn = number_of<std::int64_t>(text).value_or(0);
    return {};
  };
  return {"lockstep.first_txn", save, load, /*hashed=*/false, /*optional=*/true};
}

Status Run::begin() {
  let_go_.emplace(state_);
  hooks.on_update.close();
  LOCKSTEP_TRY(hooks.on_update.check());
  LOCKSTEP_TRY(check_options(spec_, hooks, state_));
  LOCKSTEP_ASSIGN(spec_.options.output, absolute_path(spec_.options.output));
  if (!session_of(context_).identity().newcomer)
    for (const std::string& file : spec_.options.files)
      LOCKSTEP_TRY(checkpoint::check_user_file(posix_env(), file, spec_.options.output));
  use_deterministic_algorithms(spec_.options.deterministic);
  RunStart start(context_, spec_, hooks, state_);
  LOCKSTEP_TRY(start.read_directory());
  LOCKSTEP_ASSIGN(const int virtual_workers, start.virtual_workers());
  LOCKSTEP_TRY(make_plans(spec_, hooks, virtual_workers, epoch_ends_.book() != nullptr));
  if (const EpochBook* book = epoch_ends_.book(); book != nullptr && spec_.plan.knows_its_end())
    LOCKSTEP_TRY(book->check_epochs(spec_.plan.planned_epochs()));
  if (spec_.has_data())
    if (const auto warning = warning_of_batches_of_one(spec_, state_))
      log_once(*warning, LogLevel::kWarning);
  LOCKSTEP_TRY(session_of(context_).check_first_run());
  memory_.emplace(spec_.plan.updates_per_step);
  if (spec_.plan.updates_per_step > 1) LOCKSTEP_TRY(state_.add("lockstep.step", memory_->state()));
  flags_.emplace(state_);
  LOCKSTEP_TRY(state_.add(flags_->text()));
  rehearsals_.emplace(spec_.options, spec_.plan.updates_per_step);
  LOCKSTEP_TRY(state_.add(rehearsals_->text()));
  LOCKSTEP_TRY(state_.add(first_txn()));
  LOCKSTEP_TRY(open_rows(spec_, state_));
  state_.keep_places();
  modes_.emplace(state_);
  LOCKSTEP_ASSIGN(shares_, Shares::make(spec_, hooks, state_));
  LOCKSTEP_ASSIGN(origin_, start.bring_origin());
  if (origin_ && epoch_ends_.book() != nullptr) epoch_ends_.book()->begin_at(origin_->start);
  LOCKSTEP_ASSIGN(manifest_, make_manifest(context_, spec_, hooks, state_, origin_));
  return take_part(start);
}

namespace {

// Its step() may do more than the library's, which read gradients and write to none.
bool has_optimizer_of_its_own(const TrainState& state) {
  return std::ranges::any_of(state.optimizers(), [](const Optimizer* optimizer) {
    const std::type_info& type = typeid(*optimizer);
    return type != typeid(SGD) && type != typeid(Adam) && type != typeid(AdamW);
  });
}

}  // namespace

transaction::ParticipantOptions Run::participant_options() const {
  const Plan& plan = spec_.plan;
  transaction::ParticipantOptions options;
  options.board.virtual_workers = spec_.virtual_workers();
  options.board.ids_capacity = static_cast<std::uint32_t>(spec_.samples_per_share());
  options.board.ring = coord::ring_for(options.board.virtual_workers, options.board.ids_capacity);
  options.board.epoch_ends = static_cast<std::uint32_t>(plan.txns_between_steps());
  options.board.updates = static_cast<std::uint32_t>(plan.updates_per_step);
  options.eval_items = plan.txns_between_steps() > 0 ? epoch_ends_.most_items() : 0;
  options.run_dir = spec_.options.output;
  if (plan.knows_its_end()) options.total_steps = static_cast<std::uint64_t>(plan.planned_steps());
  options.training_words = modes_->words();
  options.hooks = !hooks.on_update.empty();
  options.reducer.find_unused_parameters = spec_.options.find_unused_parameters;
  options.reducer.may_freeze = true;
  options.reducer.copy_gradients = !hooks.on_update.empty() || has_optimizer_of_its_own(state_);
  return options;
}

// Tells the launcher what this worker runs, and brings the state: from a live peer, a checkpoint,
// or as it was made.
Status Run::take_part(RunStart& start) {
  worker::Session& session = session_of(context_);
  const transaction::ParticipantOptions options = participant_options();
  worker::Description description;
  description.run_dir = options.run_dir;
  description.manifest = manifest_.json();
  description.parameters = state_.signature() + state_.frozen();
  description.board = options.board;
  description.virtual_workers = options.board.virtual_workers;
  description.total_txns = spec_.plan.end().value();
  description.total_steps = options.total_steps;
  LOCKSTEP_ASSIGN(worker::Admission admission, session.describe(description));
  run_lock_ = std::move(admission.run_lock);
  LOCKSTEP_ASSIGN(participant_, transaction::Participant::create(session, state_, *this, options));
  flags_->watch(participant_->reducer().parameters());
  checkpoints_ =
      std::make_unique<Checkpoints>(session, state_, spec_.options, manifest_, run_lock_.get());
  let_go_->begin();
  if (admission.newcomer) {
    steps_watched_.reset();
    rehearsals_->come_in();
    LOCKSTEP_TRY(participant_->heal());
    renew_half_weights();
    announced_txn_ = at();
    unwitnessed_ = state_.optimizers().size() > 1;
    return {};
  }
  LOCKSTEP_TRY(
      rundir::check_run_directory(options.run_dir, run_lock_.get()));  // else from nothing again
  LOCKSTEP_ASSIGN(const Txn next, start.settle(manifest_, *checkpoints_, admission));
  renew_half_weights();
  announced_txn_ = next;
  gone_on_from_ = start.gone_on_from();
  if (gone_on_from_) idle_steps_ = gone_on_from_->notes.idle_steps;
  rehearsals_->begin(spec_.options);
  return participant_->join(next, start.time(), next >= spec_.plan.end());
}

// They are no part of the state that came: they follow from the masters.
void Run::renew_half_weights() {
  for (MasterWeights* masters : state_.master_weights()) masters->master_params_to_model_params();
}

// What is thrown ends the run, whatever becomes of a Result in there.
void Run::refuse_within(const char* call) const {
  if (!busy_) return;
  throw Thrown(Error{ErrorKind::kUsage,
                     std::string(call) +
                         " was called within a step (by a closure, a hook, an optimizer's step()): "
                         "it is the loop's to call, once run() has returned. "
                         "Share::end_run() and UpdateEnd::end_run() end a run early"});
}

Result<bool> Run::next() {
  refuse_within("next()");
  const Busy busy(busy_);
  const auto where = [&] { return "before step " + std::to_string(global_step(at())); };
  Result<bool> more = guarded(where, ErrorKind::kInternal, [&] { return announce(); });
  over_ = !more.ok() || !*more;
  return more;
}

Result<bool> Run::announce() {
  using Turn = transaction::Participant::Turn;
  LOCKSTEP_TRY(hooks.on_update.check());
  if (announced_)
    return Error{ErrorKind::kUsage,
                 "next() again before run(): each step that next() announces must be run"};
  LOCKSTEP_ASSIGN(const Turn turn, participant_->turn());
  switch (turn) {
    case Turn::kRun:
      LOCKSTEP_TRY(copy_if_due());
      tell_of_world_size();
      announced_ = true;
      announced_txn_ = at();
      // Where the shares have left the generator depends on which ones this worker had.
      at::manual_seed(loop_seed(spec_.options.seed, global_step(at())));
      return true;
    case Turn::kStopped:
      if (participant_->first_of_host())
        LOCKSTEP_TRY(checkpoints_->copy_of_stop(spec_.plan, at(), notes()));
      // With several optimizers the checkpoint has which of them comes next, and that only run()
      // is told: so it is run() that stops.
      if (state_.optimizers().size() == 1 || !is_step(at())) return leave_stopped().error();
      announced_ = stopping_ = true;
      announced_txn_ = at();
      return true;
    case Turn::kLeft:
      return leave().error();
    case Turn::kEnd:
      LOCKSTEP_TRY(participant_->close([this] { return last_words(); }));
      // What has come was the run's; what comes now is the program's own.
      session_of(context_).release_signals();
      LOCKSTEP_TRY(files_);
      return false;
  }
  return false;
}

// An error in any case.
Status Run::leave() {
  LOCKSTEP_TRY(session_of(context_).leave(at()));
  return Error{ErrorKind::kLeft, "taken out of the run, which goes on without this worker"};
}

// An error in any case: kResumable, unless the checkpoint cannot be had. Whoever was the first in
// next() has copied it there: what the loop has done since is no part of it.
Status Run::leave_stopped() {
  RunNotes notes = this->notes();
  if (stopping_) notes.optimizers = given_.choices();
  if (checkpoints_->has_copy()) LOCKSTEP_TRY(checkpoints_->save(spec_.plan, at(), notes));
  LOCKSTEP_TRY(session_of(context_).leave(at()));
  return Error{ErrorKind::kResumable, "stopped by the launcher; the same command goes on"};
}

Result<StepResult> Run::run_next(std::vector<GivenUpdate> updates) {
  refuse_within("run()");
  const Busy busy(busy_);
  if (!std::exchange(announced_, false))
    return Error{ErrorKind::kUsage, "run() without next(): next() announces each step, once"};
  given_.give(std::move(updates));
  results_.clear();
  const auto where = [&] { return in_words(at()); };
  Status status = guarded(where, ErrorKind::kInternal, [&]() -> Status {
    LOCKSTEP_TRY(hooks.on_update.check());
    LOCKSTEP_TRY(given_.check(global_step(at())));
    LOCKSTEP_TRY(check_goes_on_as_before());
    if (stopping_) return leave_stopped();
    while (const auto remark = let_go_->next()) log_once(*remark, LogLevel::kWarning);
    LOCKSTEP_TRY(checkpoints_->hand_over(given_.choices()));
    trained_ = true;
    return run_updates();
  });
  over_ = !status.ok();
  if (!status.ok()) return with_own_option(status.error());
  tell_of_unused_data();
  const Position position = spec_.plan.at(announced_txn_);
  StepResult result{position.epoch, position.step, position.global_step, results_};
  for (const UpdateResult& update : results_) result.sums += update.sums;
  return result;
}

Status Run::run_updates() {
  bool first = true;
  for (const GivenUpdate& update : given_.updates()) {
    if (!std::exchange(first, false)) LOCKSTEP_TRY(go_on_in_step());
    LOCKSTEP_TRY(state_.check_places());
    LOCKSTEP_TRY(flags_->check());
    participant_->reducer().read_frozen();
    modes_->read();
    shares_->choose(update.optimizers, *update.loss);
    participant_->reducer().choose(set_of(update.optimizers));
    const bool has_result = is_step(at());
    const std::size_t before = results_.size();
    LOCKSTEP_TRY(participant_->run());
    // This worker leaves with it, and has not read what the others have.
    if (has_result && results_.size() == before) return leave();
  }
  return {};
}

// Nobody comes or goes, and nothing ends.
Status Run::go_on_in_step() {
  LOCKSTEP_ASSIGN(const auto turn, participant_->turn());
  return turn == transaction::Participant::Turn::kRun ? Status() : leave();
}

// For the checkpoint of the start of at().
RunNotes Run::notes() const {
  RunNotes notes;
  notes.idle_steps = idle_steps_;
  notes.workers = session_of(context_).identity().world_size;
  return notes;
}

// Where all have died nobody is left to compare with, but the checkpoint knows.
Status Run::check_goes_on_as_before() const {
  if (!gone_on_from_ || !gone_on_from_->own || gone_on_from_->next != at()) return {};
  return given_.check_as_before(at(), gone_on_from_->notes.optimizers);
}

// Behind a stop in order nothing is done again, so that nothing else shows it.
void Run::tell_of_world_size() {
  const worker::Session& session = session_of(context_);
  const int before = gone_on_from_ && gone_on_from_->own ? gone_on_from_->notes.workers : 0;
  const int now = session.identity().world_size;
  if (before == 0 || before == now || !session.world_size_was_asked()) return;
  log_once("the run goes on with world_size() " + std::to_string(now) + ", it was " +
               std::to_string(before) +
               " in the start before, and the program asks for it: a rate, a loss or a batch size "
               "that depends on it makes other weights. V stays: run_so_far().virtual_workers "
               "(docs/guide/own_loop.md, \"How many shares there are\"). A program that only "
               "prints it may pass this over",
           LogLevel::kWarning, "world_size");
}

// A loop that has data of its own around run() compiles, trains, and is not exact.
void Run::tell_of_unused_data() {
  if (!steps_watched_ || !spec_.has_data()) return;
  const auto enough = static_cast<std::int64_t>(2 * state_.optimizers().size());
  ++*steps_watched_;
  if (shares_->asked_for_batch()) {
    steps_watched_.reset();
  } else if (*steps_watched_ == enough || at() >= spec_.plan.end()) {
    steps_watched_.reset();
    if (!participant_->first_live()) return;
    log_warning(
        "no share has asked for its batch (Share::batch()) so far, so nothing is trained "
        "on the run's data set, of " +
        std::to_string(spec_.train->size()) +
        " samples. Batches of a data loader around run() are not the same for whoever "
        "computes a share after a death: take share.batch(). A program without data may "
        "pass this over");
  }
}

// By whoever has the last words: once for the node, as its files may be what is missing.
void Run::tell_what_is_missing() const {
  const EndOfRun end{spec_,
                     hooks,
                     state_,
                     epoch_ends_.book(),
                     global_step(at()),
                     idle_steps_,
                     shares_->left_out()};
  for (const std::string& remark : closing_remarks(end)) log_warning(remark);
}

Status Run::last_words() {
  LOCKSTEP_TRY(checkpoints_->save(spec_.plan, at(), notes()));
  files_ = epoch_ends_.write_what_is_missing(at());
  if (hooks.on_finished)
    LOCKSTEP_TRY(guarded("on_finished()", ErrorKind::kInternal, hooks.on_finished));
  tell_what_is_missing();
  const std::uint64_t launched = participant_->board().header().started_ns.load();
  const double seconds =
      static_cast<double>(monotonic_ns() - (launched != 0 ? launched : started_ns_)) * 1e-9;
  return session_of(context_).finish(finale(spec_, state_, global_step(at()), seconds, trained_));
}

}  // namespace lockstep::training

// A run as the participant's program: each call goes to the part that it is of.
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include "base/log.h"
#include "checkpoint/store.h"
#include "train/run.h"
#include "train/step_records.h"
#include "transaction/causes.h"

namespace lockstep::training {
namespace {

constexpr const char* kCarriedInVain =
    ": shares have carried rows, which are dropped with the update, as no share took part in it "
    "(all closures returned an undefined tensor). What is to be kept while nothing learns yet "
    "needs an update of rate 0, and reset_state() once it begins "
    "(docs/guide/reinforcement_learning.md, \"A warm-up that only plays\")";

// Their masters' gradients stay.
void copy_to_half_weights(const MasterWeights& masters) {
  const at::NoGradGuard no_grad;
  for (const MasterWeights::Pair& pair : masters.pairs()) at::Tensor(pair.model).copy_(pair.master);
}

}  // namespace

std::uint32_t Run::items(Txn txn) const {
  return is_step(txn) ? spec_.virtual_workers() : epoch_ends_.items(txn);
}

// One is enough for a step and its epoch's end: that of the next epoch's start, where another
// number of virtual workers may go on.
bool Run::checkpoint_due(Txn txn) const {
  const Duration& every = spec_.options.checkpoint_every;
  if (every.unit != Duration::Unit::kTime) return spec_.checkpoint_due(spec_.plan.at(txn));
  const std::uint64_t since = checkpointed_ns_ != 0 ? checkpointed_ns_ : started_ns_;
  return every.seconds > 0 && is_step(txn) && is_border(txn) &&
         static_cast<double>(monotonic_ns() - since) * 1e-9 >= every.seconds;
}

// What the loop does between next() and run() it does again where a run goes on from a checkpoint:
// so that is of before it.
Status Run::copy_if_due() {
  LOCKSTEP_TRY(checkpoints_->check());
  if (!checkpoint_due(at()) || !participant_->first_of_host()) return {};
  participant_->enter(coord::Phase::kSnapshot);
  LOCKSTEP_TRY(participant_->record_all());
  checkpointed_ns_ = monotonic_ns();
  LOCKSTEP_TRY(checkpoints_->copy(spec_.plan, at(), notes()));
  participant_->enter(coord::Phase::kIdle);
  return {};
}

std::uint64_t Run::run_time() const {
  return coord::ran_ns(participant_->board().header(), monotonic_ns());
}

Status Run::compute_share(Txn txn, VirtualWorker v, transaction::ShareOutput& output) {
  output.record.epoch_began_ns = epoch_ends_.began_ns(txn, run_time());
  output.notes.idle_steps().store(idle_steps_, std::memory_order_relaxed);
  modes_->write(output.notes.training());
  return shares_->compute(*participant_, txn, v, output);
}

Status Run::compute_batch(Txn txn, std::uint32_t index, comm::EvalCell& cell) {
  if (spec_.plan.at(txn).kind == Kind::kExport) {
    participant_->enter(coord::Phase::kSnapshot);  // a disk may be slow
    LOCKSTEP_TRY(epoch_ends_.export_files(
        txn, {[&] { return secure_origin(txn); }, [&] { return keep_best(txn); }}, cell));
  } else {
    LOCKSTEP_TRY(epoch_ends_.evaluate(txn, index, cell));
  }
  epoch_ends_.tell_time(txn, run_time(), cell);
  return {};
}

// What the run began from may be what an export is about to write over.
Status Run::secure_origin(Txn txn) {
  if (!origin_) return {};
  const auto steps = [&] { return checkpoint::list_steps(posix_env(), spec_.options.output); };
  LOCKSTEP_ASSIGN(const auto before, steps());
  if (!before.empty()) return {};
  LOCKSTEP_TRY(participant_->record_all());
  LOCKSTEP_TRY(checkpoints_->save(spec_.plan, txn, notes()));
  LOCKSTEP_ASSIGN(const auto after, steps());
  if (!after.empty()) return {};
  return Error{ErrorKind::kDisk,
               "not written, as there is no checkpoint yet: it may be what the run began from"};
}

// The state is that of the epoch's end until this transaction is committed: so whoever does it
// again after a death keeps the same.
Status Run::keep_best(Txn txn) {
  if (spec_.options.checkpoint_every.none() || spec_.plan.in_broken_end(txn)) return {};
  LOCKSTEP_TRY(participant_->record_all());
  return checkpoints_->save_best(spec_.plan, txn, notes());
}

// Whether it matters, the second computation shows: of a module that is not in the loss, or has no
// dropout, it does not.
std::string Run::doubt() const {
  if (!rehearsals_->promised()) return "";
  const auto differs = modes_->difference(*participant_, spec_.virtual_workers());
  if (!differs) return "";
  return *differs + transaction::kSetModesAlike;
}

Status Run::check_marked(Txn txn, coord::Board board) {
  return marked_.compare_new(txn, board, [&](int u, int v) -> Status {
    LOCKSTEP_TRY(check_flags(*participant_, static_cast<std::uint32_t>(u),
                             static_cast<std::uint32_t>(v), spec_.plan, txn));
    return StepRecords(spec_, state_, txn, board).check_optimizers(u, v);
  });
}

Status Run::check(Txn txn, coord::Board board) {
  LOCKSTEP_TRY(state_.check_modules());
  LOCKSTEP_TRY(state_.check_places());
  LOCKSTEP_TRY(check_marked(txn, board));
  const StepRecords records(spec_, state_, txn, board);
  LOCKSTEP_TRY(records.check(*participant_));
  // A newcomer has not seen the loop's choice.
  participant_->reducer().choose(set_of(records.optimizers()));
  participant_->reducer().set_frozen(participant_->notes(0).frozen());
  LOCKSTEP_TRY(check_witnessed(txn));
  LOCKSTEP_TRY(update_.read(txn, records, *participant_));
  const EpochBook* const book = epoch_ends_.book();
  if (book == nullptr) return {};
  return book->check_sums(in_words(txn) + ", with the epoch's steps before", update_.sums(),
                          epoch_step(txn) == 0);
}

// A newcomer's loop has just begun: that the optimizers it gives are the right ones shows in each
// update of its first step, from those who were there before. Where they have died in that very
// step without a word, only a checkpoint knows.
Status Run::check_witnessed(Txn txn) {
  if (!unwitnessed_) return {};
  bool witnessed = shares_->heard_choice();
  for (std::uint32_t v = 0; v < spec_.virtual_workers(); ++v)
    witnessed = witnessed || !participant_->computed(v);
  unwitnessed_ = !spec_.plan.completes_step(spec_.plan.at(txn));
  if (witnessed) return {};
  return Error{ErrorKind::kResumable,
               "this worker came in with step " + std::to_string(global_step(txn)) +
                   ", and all others died in it: nobody is left who knows which optimizer it has. "
                   "The same command goes on from the last checkpoint, which does"};
}

bool Run::update(Txn txn, coord::Board board) {
  announced_txn_ = txn;  // a newcomer's first one is not announced: a hook may ask for its step
  const StepRecords records(spec_, state_, txn, board);
  const Position position = spec_.plan.at(txn);
  // Where the shares have left the generator depends on which ones this worker had.
  at::manual_seed(commit_seed(spec_.options.seed, position.global_step, position.update));
  update_.make(records);
  if (records.takes_part())
    rehearsals_->count(position.update);
  else if (shares_->carried_any())
    log_once(in_words(txn) + kCarriedInVain, LogLevel::kWarning, kCarriedInVain);
  if (EpochBook* const book = epoch_ends_.book()) {
    records.add_to(*book, !update_.left_out());
    book->add_sums(update_.skipped() ? Sums() : update_.sums(), position.step == 0);
  }
  epoch_ends_.begun(records.epoch_began_ns());
  results_.push_back(update_.result());
  remember(position, records);
  return !update_.left_out();
}

// For the step's later updates, for what ends the run, and for newcomers.
void Run::remember(const Position& position, const StepRecords& records) {
  const bool not_finite = records.loss_not_finite().has_value();
  told_ = not_finite && memory_->was_not_finite(position.update);
  memory_->add(position.update, {records.loss(), update_.stepped(), records.end_run(), not_finite});
  if (!spec_.plan.completes_step(position)) return;
  // The word of virtual worker 0's worker, so that newcomers know it, too.
  idle_steps_ = memory_->changed()
                    ? 0
                    : participant_->notes(0).idle_steps().load(std::memory_order_relaxed) + 1;
  heed_end(position);
}

// In the last step too: a run that is given more epochs later stays ended.
void Run::heed_end(const Position& position) {
  if (spec_.plan.completes_step(position) && memory_->ends_run())
    spec_.plan.end_after(position.global_step + 1);
}

// With half weights these follow the masters, whose gradients the hooks may read, and both may be
// written to: the masters count.
Status Run::updated(Txn txn) {
  const Position at = spec_.plan.at(txn);
  for (const auto& schedule : hooks.update_schedules) schedule.step(update_.result().loss_mean);
  if (!hooks.on_update.empty()) {
    for (const MasterWeights* masters : state_.master_weights()) copy_to_half_weights(*masters);
    UpdateEnd end;
    end.epoch = at.epoch;
    end.step = at.step;
    end.global_step = at.global_step;
    end.update = at.update;
    end.stepped = update_.stepped();
    end.result = update_.result();
    LOCKSTEP_TRY(hooks.on_update.run(end, [&] { return in_words(txn) + ": on_update()"; }));
    if (end.ends_run()) {
      memory_->end_run(at.update);
      heed_end(at);
    }
  }
  renew_half_weights();
  return {};
}

Status Run::end_epoch(Txn txn, comm::Exchange& exchange) {
  LOCKSTEP_TRY(epoch_ends_.end(txn, exchange));
  if (!spec_.plan.in_broken_end(txn) && epoch_ends_.ends_run(txn))
    spec_.plan.end_after(global_step(txn));
  return {};
}

transaction::Lines Run::lines(Txn txn, coord::Board board, comm::Exchange& exchange) const {
  if (!is_step(txn)) return epoch_ends_.lines(txn, exchange);
  const bool completes = spec_.plan.completes_step(spec_.plan.at(txn));
  const StepRecords records(spec_, state_, txn, board);
  const bool told = spec_.plan.updates_per_step > 1 ? told_ : records.told_before();
  return records.lines(hooks, epoch_ends_.book(),
                       {update_.not_finite(), update_.left_out(), told, update_.rates(),
                        update_.result(), completes && memory_->ends_run(),
                        completes ? memory_->losses() : std::vector<std::optional<double>>()});
}

}  // namespace lockstep::training

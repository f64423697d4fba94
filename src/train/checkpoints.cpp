#include "train/checkpoints.h"

#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "checkpoint/search.h"
#include "checkpoint/store.h"
#include "checkpoint/tensors.h"
#include "coord/board.h"
#include "rundir/lock.h"
#include "rundir/names.h"

namespace lockstep::training {
namespace {

using namespace std::chrono_literals;

constexpr auto kSaveDeadline = 10min;
constexpr int kKeptInTraining = 3;  // where --keep-checkpoints does not say

CheckpointPart part_of(const std::string& name, const std::vector<TrainState::Named>& tensors) {
  CheckpointPart part{name, {}};
  for (const TrainState::Named& named : tensors)
    part.tensors.emplace_back(named.name, named.tensor);
  return part;
}

// "optimizer" is the file's name; what else is not of the model is in there, too.
std::vector<CheckpointPart> parts_of(const TrainState& state) {
  return {part_of("model", state.model()), part_of("optimizer", state.not_of_model())};
}

std::vector<checkpoint::ModuleEntry> modules_of(const TrainState& state) {
  std::vector<checkpoint::ModuleEntry> entries;
  for (const TrainState::InModel& each : state.in_model())
    entries.push_back({printable(each.name), printable(each.prefix), each.tensors});
  return entries;
}

// A broken epoch's end is no place to go on from: the one of its last step is.
Txn place_in(const Plan& plan, Txn next) {
  return plan.in_broken_end(next) ? plan.place_of_end() : next;
}

}  // namespace

Checkpoints::Checkpoints(worker::Session& session, TrainState& state, const RunOptions& options,
                         const rundir::RunManifest& manifest, int run_lock)
    : session_(session),
      state_(state),
      options_(options),
      manifest_(manifest),
      run_lock_(run_lock) {}

Checkpoints::~Checkpoints() = default;

Result<std::optional<checkpoint::Found>> Checkpoints::load_newest(
    const checkpoint::Expectation& expected, std::span<const checkpoint::PartTarget> parts,
    bool first) const {
  LOCKSTEP_ASSIGN(checkpoint::Search search,
                  checkpoint::load_newest(posix_env(), options_.output, expected, parts));
  if (first)
    for (const auto& skipped : search.skipped)
      log_warning("skipped checkpoint '" + skipped.path + "': " + skipped.reason);
  if (search.newest || search.skipped.empty()) return std::move(search.newest);
  return Error{ErrorKind::kBadData,  // the whole work does not begin anew unasked
               "no checkpoint in '" + options_.output + "' can be used; the newest, '" +
                   search.skipped.front().path + "': " + search.skipped.front().reason +
                   ". --resume never starts over"};
}

Result<std::optional<Checkpoints::Loaded>> Checkpoints::load(Plan& plan, bool checkpointed,
                                                             bool first) {
  if (first) LOCKSTEP_TRY(checkpoint::remove_unpublished(posix_env(), options_.output));
  const std::vector<CheckpointPart> parts = parts_of(state_);
  LOCKSTEP_ASSIGN(auto targets, checkpoint::Targets::of(parts));
  checkpoint::Expectation expected;
  expected.run_identity = manifest_.identity();
  expected.other_identity = manifest_.identity_with_start();
  if (!options_.new_virtual_workers) expected.virtual_workers = *manifest_.virtual_workers();

  // A restarted group has checkpoints of its own, unless it died before the first.
  std::optional<checkpoint::Found> found;
  if (!from_path() || checkpointed) {
    LOCKSTEP_ASSIGN(found, load_newest(expected, targets.parts(), first));
  }
  const bool own = found.has_value();
  if (!found && from_path()) {
    LOCKSTEP_ASSIGN(found, load_path(expected, targets.parts(), first));
  }
  if (!found) return std::optional<Loaded>();
  LOCKSTEP_TRY(targets.finish());
  LOCKSTEP_ASSIGN(const RunNotes notes, load_texts(state_, found->state));
  if (!same_virtual_workers(*found)) LOCKSTEP_TRY(go_on_otherwise(plan, *found));
  if (first) log_info("resuming from '" + found->path + "'");
  const Loaded loaded{Txn(found->manifest.cursor.txn), own, notes};
  if (own && same_virtual_workers(*found)) newest_ = loaded;
  return std::optional(loaded);
}

bool Checkpoints::from_path() const {
  return options_.resume != "auto" && options_.resume != "never";
}

// Every launch with that option begins there; what the run directory has stays until the first new
// one is published.
Result<checkpoint::Found> Checkpoints::load_path(const checkpoint::Expectation& expected,
                                                 std::span<const checkpoint::PartTarget> parts,
                                                 bool first) const {
  LOCKSTEP_ASSIGN(const auto own, checkpoint::list_steps(posix_env(), options_.output));
  const std::string newest = own.empty() ? "" : rundir::step_name(own.front());
  auto found = checkpoint::load_checkpoint_at(posix_env(), options_.resume, expected, parts);
  if (!found.ok() && !own.empty())
    return Error{found.error().kind,
                 found.error().message + ". '" + options_.output +
                     "' has checkpoints of its own: --resume auto goes on from " + newest};
  if (found.ok() && first && !own.empty() && own.front() > found->manifest.cursor.txn)
    log_warning("begins from '" + found->path + "', before " + newest + " of '" + options_.output +
                "', which the next checkpoint replaces; --resume auto would go on from there");
  return found;
}

bool Checkpoints::same_virtual_workers(const checkpoint::Found& found) const {
  return found.manifest.virtual_workers == *manifest_.virtual_workers();
}

// With another V steps per epoch differ, so the place in the run is kept only at an epoch's start.
Status Checkpoints::go_on_otherwise(Plan& plan, const checkpoint::Found& found) {
  const RunCursor& cursor = found.manifest.cursor;
  if (cursor.step == 0) {
    const auto epoch = static_cast<std::int64_t>(cursor.epoch);
    plan.first_txn = static_cast<std::int64_t>(cursor.txn) - epoch * plan.txns_per_epoch();
    return {};
  }
  return Error{ErrorKind::kUsage,
               "--new-virtual-workers: checkpoint '" + found.path + "' is in the middle of epoch " +
                   std::to_string(cursor.epoch) + " (step " + std::to_string(cursor.step) +
                   "); the number of virtual workers can change only at an epoch's start"};
}

// On the writer's thread.
void Checkpoints::on_done(const Position& position, Txn txn,
                          const Result<checkpoint::Published>& result) {
  if (result.ok()) {
    if (!result->warning.empty()) log_warning(result->warning);
    // An agent that is gone takes this process with it; nothing to add.
    static_cast<void>(session_.checkpoint_published(txn).ok());
    return;
  }
  static_cast<void>(session_.checkpoint_failed(txn, result.error()).ok());
  if (txn.value() + 1 == awaited_.load()) return;  // whoever waits for it says so
  const std::string what = "the checkpoint after step " + std::to_string(position.global_step) +
                           " was not saved: " + result.error().message;
  if (options_.continue_on_save_error) {
    log_warning(what + "; training goes on (--on-save-error continue)");
  } else {
    const std::lock_guard lock(mutex_);
    failure_ = Error{ErrorKind::kDisk,
                     what +
                         "; stopped (--on-save-error stop). The same command goes on from the "
                         "last one once it can be saved"};
  }
}

Status Checkpoints::check() const {
  const std::lock_guard lock(mutex_);
  return failure_ ? Status(*failure_) : Status();
}

void Checkpoints::make_writer(const Plan& plan) {
  checkpoint::WriterOptions options;
  options.run_dir = options_.output;
  options.through = rundir::path_through(run_lock_);
  options.run_identity = manifest_.identity();
  options.virtual_workers = *manifest_.virtual_workers();
  options.modules = modules_of(state_);
  options.keep_last = static_cast<unsigned>(options_.keep_checkpoints.value_or(kKeptInTraining));
  options.place = [this] { return rundir::check_run_directory(options_.output, run_lock_); };
  options.goes_back = from_path();
  options.gate = [this](const RunCursor& cursor) {
    return session_.sync_records(Txn(cursor.txn), Deadline::in(kSaveDeadline));
  };
  options.done = [this, plan](const RunCursor& cursor,
                              const Result<checkpoint::Published>& result) {
    on_done(plan.at(Txn(cursor.txn)), Txn(cursor.txn), result);
  };
  writer_ = std::make_unique<checkpoint::Writer>(posix_env(), std::move(options));
}

Status Checkpoints::take(const Plan& plan, Txn next, RunNotes notes,
                         checkpoint::WhenBusy when_busy) {
  if (!writer_) make_writer(plan);
  copy_.reset();
  const std::vector<CheckpointPart> parts = parts_of(state_);
  LOCKSTEP_ASSIGN(const auto sources, checkpoint::Sources::of(parts));
  LOCKSTEP_ASSIGN(const bool taken,
                  writer_->copy(sources.parts(), when_busy, Deadline::in(kSaveDeadline)));
  if (!taken) return {};
  const Txn place = place_in(plan, next);
  const Position at = plan.at(place);
  const coord::Board board(session_.memory(), {});
  notes.ended_early = plan.ended_early;
  notes.stopped = plan.stops() && next >= plan.end();
  notes.ran_ns = coord::ran_ns(board.header(), monotonic_ns());
  copy_ = {
      {place.value(), static_cast<std::uint64_t>(at.epoch), static_cast<std::uint64_t>(at.step)},
      board.table(next).generation.load(),
      save_texts(state_),
      std::move(notes)};
  return {};
}

Status Checkpoints::copy(const Plan& plan, Txn next, const RunNotes& notes) {
  return take(plan, next, notes, checkpoint::WhenBusy::kSkip);
}

Status Checkpoints::copy_of_stop(const Plan& plan, Txn next, const RunNotes& notes) {
  return told(plan, next, take(plan, next, notes, checkpoint::WhenBusy::kWait));
}

Status Checkpoints::hand_over(std::vector<OptimizerList> optimizers) {
  if (!copy_) return {};
  Copy copy = *std::exchange(copy_, std::nullopt);
  copy.notes.optimizers = std::move(optimizers);
  return writer_->write(texts_json(state_, copy.texts, copy.notes), copy.cursor, copy.generation);
}

Status Checkpoints::publish(const Plan& plan, Txn next, const RunNotes& notes) {
  const std::uint64_t place = place_in(plan, next).value();
  awaited_ = place + 1;
  if (!copy_ || copy_->cursor.txn != place)
    LOCKSTEP_TRY(take(plan, next, notes, checkpoint::WhenBusy::kWait));
  LOCKSTEP_TRY(hand_over(notes.optimizers));
  LOCKSTEP_TRY(check());
  return writer_->wait(Deadline::in(kSaveDeadline));
}

Status Checkpoints::save_best(const Plan& plan, Txn next, const RunNotes& notes) {
  LOCKSTEP_TRY(publish(plan, next, notes));
  return checkpoint::set_pointer(posix_env(), rundir::path_through(run_lock_), "best",
                                 next.value());
}

// That of a broken epoch's last step stands for its end only where that was evaluated, too.
bool Checkpoints::is_there(const Plan& plan, Txn next) const {
  return newest_ && newest_->next == place_in(plan, next) &&
         (newest_->next == next || newest_->notes.stopped);
}

// Of a finished run; that one could not be removed is no reason to have failed.
void Checkpoints::keep_the_last_alone(const Plan& plan, Txn next) const {
  if (options_.keep_checkpoints) return;
  const std::uint64_t last = place_in(plan, next).value();
  const Status kept = checkpoint::retain(posix_env(), rundir::path_through(run_lock_), last, 1);
  if (!kept.ok()) log_warning("older checkpoints are still there: " + kept.error().message);
}

Status Checkpoints::save(const Plan& plan, Txn next, const RunNotes& notes) {
  const bool last = next >= plan.end();
  if (last && is_there(plan, next)) return {};
  const Status saved = publish(plan, next, notes);
  if (saved.ok() && last) keep_the_last_alone(plan, next);
  if (saved.ok() || !last) return told(plan, next, saved);
  return Error{ErrorKind::kDisk,
               "the final weights are not on disk: " + saved.error().message +
                   ". The same command goes on from the last checkpoint once they can be saved"};
}

// What becomes of the run where it stops, and its state was not saved.
Status Checkpoints::told(const Plan& plan, Txn next, const Status& saved) const {
  if (saved.ok()) return {};
  const std::string what = "the checkpoint after step " +
                           std::to_string(plan.at(next).global_step) +
                           ", where the run stops, was not saved: " + saved.error().message;
  if (!options_.continue_on_save_error) return Error{ErrorKind::kDisk, what};
  log_warning(what);
  return {};
}

}  // namespace lockstep::training

#include "train/run_start.h"

#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/text.h"
#include "checkpoint/store.h"
#include "context/session_of.h"
#include "rundir/names.h"
#include "rundir/time_stop.h"

namespace lockstep::training {
namespace {

bool same(const StartPoint& a, const StartPoint& b) {
  return a.epoch == b.epoch && (a.best == b.best || (std::isnan(a.best) && std::isnan(b.best)));
}

}  // namespace

Status RunStart::read_directory() {
  const RunOptions& options = spec_.options;
  Result<std::optional<rundir::RunManifest>> before =
      rundir::read_manifest(posix_env(), options.output);
  if (before.ok()) {
    before_ = *std::move(before);
    return {};
  }
  // What is there counts for nothing with `never`, damaged or not; but it must be a run's.
  if (options.resume == "never" && before.error().kind != ErrorKind::kUsage) return {};
  return std::move(before).error();
}

Result<int> virtual_workers_of(const RunOptions& options, const rundir::RunManifest* gone_on_with,
                               int world_size) {
  if (options.virtual_workers != 0) return options.virtual_workers;
  if (gone_on_with == nullptr) return world_size;
  LOCKSTEP_ASSIGN(const std::uint32_t then, gone_on_with->virtual_workers());
  return static_cast<int>(then);
}

Result<int> RunStart::virtual_workers() const {
  const worker::Identity& me = session_of(context_).identity();
  LOCKSTEP_ASSIGN(
      const int chosen,
      virtual_workers_of(spec_.options, goes_on() ? &*before_ : nullptr, me.world_size));
  if (me.world_size > chosen && !me.newcomer)
    return Error{ErrorKind::kUsage,
                 std::to_string(me.world_size) +
                     " workers were asked for (--nproc-per-node, or the number of ranks), but the "
                     "run has " +
                     std::to_string(chosen) +
                     " virtual workers, and each worker needs at least one: use at most " +
                     std::to_string(chosen) + " workers (or more --virtual-workers for a new run)"};
  return chosen;
}

// Of a file that anybody may have written.
static Status check_history(const StartPoint& start) {
  const auto& history = start.history;
  if (history.empty()) return {};
  if (std::ssize(history) != start.epoch)
    return Error{ErrorKind::kBadData,
                 "what this run starts from has " + std::to_string(start.epoch) +
                     " epochs behind it, and the history of " + std::to_string(history.size()) +
                     " (Trainer::start_from())"};
  constexpr double kMostSeconds = 1e9;
  double before = 0;
  for (std::size_t i = 0; i < history.size(); before = history[i++].run_seconds)
    if (!(history[i].run_seconds >= before && history[i].run_seconds <= kMostSeconds))
      return Error{ErrorKind::kBadData, "what this run starts from has run " +
                                            shortest(history[i].run_seconds) +
                                            " s at the end of epoch " + std::to_string(i) +
                                            ", after " + shortest(before) +
                                            "; times ascend, to at most 1e9 "
                                            "(Trainer::start_from())"};
  return {};
}

Result<std::optional<Origin>> RunStart::bring_origin() {
  if (goes_on()) {
    origin_ = origin_of(*before_);
    if (!origin_) return origin_;
  }
  const RunOptions& options = spec_.options;
  const bool elsewhere = options.resume != "auto" && !goes_on();  // a path; or never
  if (!hooks_.start_from || elsewhere || session_of(context_).identity().newcomer) return origin_;
  LOCKSTEP_ASSIGN(const auto saved, checkpoint::list_steps(posix_env(), options.output));
  if (!saved.empty()) return origin_;
  LOCKSTEP_ASSIGN(const std::optional<StartPoint> start, hooks_.start_from());
  if (!start) return origin_;
  LOCKSTEP_TRY(check_history(*start));
  if (start->epoch < 0 || start->epoch > spec_.plan.epochs)
    return Error{ErrorKind::kUsage,
                 "what this run starts from has " + std::to_string(start->epoch) +
                     " epochs behind it, and the run is to have " +
                     std::to_string(spec_.plan.epochs) +
                     " in all: ask for more, or take that file away (Trainer::start_from())"};
  const std::string weights = state_.weights_sha256();
  if (!goes_on()) origin_ = {*start, weights, true};
  origin_->here = same(origin_->start, *start) && origin_->weights_sha256 == weights;
  origin_->start.history = start->history;
  return origin_;
}

// One that is not refused writes its manifest before all else: without it the rest would be taken
// for somebody else's. Once this launch has begun the run, the files are its own, also with
// `--resume never`: steps that are done again are compared with their records.
Result<Txn> RunStart::settle(const rundir::RunManifest& manifest, Checkpoints& checkpoints,
                             const worker::Admission& admission) {
  const RunOptions& options = spec_.options;
  const bool first = context_.local_rank() == 0;  // each host has files of its own
  // 0 ns would be none.
  time_.limit = spec_.max_seconds > 0
                    ? static_cast<std::uint64_t>(std::max(1.0, spec_.max_seconds * 1e9))
                    : 0;
  const bool own = admission.begun || admission.checkpointed;
  if (options.resume == "never" && !own) {
    if (first) LOCKSTEP_TRY(start_over(manifest));
    return Txn(0);
  }
  if (before_.has_value())
    LOCKSTEP_TRY(manifest.same_as(*before_, options.output,
                                  options.new_virtual_workers ? rundir::kVirtualWorkersKey : ""));
  if (options.resume == "auto" || own)
    LOCKSTEP_TRY(heed_stop(first));
  else if (first)  // what it goes back behind
    LOCKSTEP_TRY(rundir::remove_time_stop(posix_env(), options.output));
  LOCKSTEP_ASSIGN(const auto loaded, checkpoints.load(spec_.plan, admission.checkpointed, first));
  gone_on_from_ = loaded;
  std::optional<Txn> start;
  if (loaded) {
    start = go_on_from(*loaded);
  } else {
    LOCKSTEP_ASSIGN(start, begin_elsewhere(first));
  }
  if (!first) return start.value_or(Txn(0));
  LOCKSTEP_TRY(write_identity(spec_, for_directory(manifest, start.value_or(Txn(0)))));
  if (!start) return Txn(0);
  const Position position = spec_.plan.at(*start);
  if (hooks_.on_resume) hooks_.on_resume(position.epoch, position.step);
  if (*start >= spec_.plan.end()) say_finished(*start);
  return *start;
}

// A run that its program has ended goes no further; one that begins with --resume PATH of it does.
Txn RunStart::go_on_from(const Checkpoints::Loaded& loaded) {
  if (!loaded.own) return loaded.next;
  Plan& plan = spec_.plan;
  time_.ran = loaded.notes.ran_ns;
  if (loaded.notes.ended_early) plan.end_after(plan.at(loaded.next).global_step);
  if (plan.stops() && loaded.next > plan.place_of_end()) {  // it never took effect
    plan.stop_after = 0;
    time_.stop_after_step = 0;
  }
  const bool stopped = plan.stops() && loaded.next == plan.place_of_end() && loaded.notes.stopped;
  return stopped ? plan.end() : loaded.next;
}

// A longer limit than it was stopped by, or none, and it goes on from there. Another number of
// virtual workers has other steps.
Status RunStart::heed_stop(bool first) {
  LOCKSTEP_ASSIGN(const auto stop, rundir::read_time_stop(posix_env(), spec_.options.output));
  if (!stop) return {};
  const double limit = spec_.max_seconds;
  if (limit == 0 || limit > stop->limit_s || spec_.options.new_virtual_workers)
    return first ? rundir::remove_time_stop(posix_env(), spec_.options.output) : Status();
  time_.stop_after_step = stop->stop_after_step;
  spec_.plan.stop_after = static_cast<std::int64_t>(stop->stop_after_step);
  return {};
}

// nullopt: from the seed.
Result<std::optional<Txn>> RunStart::begin_elsewhere(bool first) {
  if (!origin_) return std::optional<Txn>();
  if (!origin_->here)
    return Error{ErrorKind::kBadData,
                 "the run in '" + spec_.options.output +
                     "' began from weights of elsewhere, of which it has no checkpoint yet, and "
                     "they are not there any more; --resume never starts over"};
  if (first)
    log_info("goes on at the start of epoch " + std::to_string(origin_->start.epoch) +
             " with weights of elsewhere; the optimizer's state begins anew" + what_else_begins());
  if (!origin_->start.history.empty())
    time_.ran = static_cast<std::uint64_t>(origin_->start.history.back().run_seconds * 1e9);
  return std::optional(spec_.plan.epoch_start(origin_->start.epoch));
}

std::string RunStart::what_else_begins() const {
  std::string what = state_.schedulers().empty() ? "" : ", and the schedule's";
  if (hooks_.best.nothing()) return what;
  const double best = origin_->start.best;
  return what + (std::isnan(best) ? "; the best so far is not known"
                                  : "; the best so far is " + shortest(best));
}

// With the place where the records of its directory begin: where the first start there does, or a
// later one that has gone back behind it.
rundir::RunManifest RunStart::for_directory(rundir::RunManifest manifest, Txn next) const {
  Txn from = next;
  if (before_) {
    const std::int64_t known = before_->number(rundir::kRecordsFromKey).value_or(0);
    from = std::min(next, Txn(static_cast<std::uint64_t>(known)));
  }
  if (from > Txn(0)) manifest.set(rundir::kRecordsFromKey, static_cast<std::int64_t>(from.value()));
  return manifest;
}

Status RunStart::start_over(const rundir::RunManifest& manifest) const {
  for (const char* name : rundir::kRunNames)
    LOCKSTEP_TRY(posix_env().remove_all(spec_.options.output + "/" + name));
  return write_identity(spec_, manifest);
}

void RunStart::say_finished(Txn committed) const {
  const std::string steps = std::to_string(spec_.plan.at(committed).global_step);
  if (spec_.plan.ended_early)
    return log_info("the run in '" + spec_.options.output + "' was ended by its program after " +
                    steps +
                    " steps (Share::end_run, Trainer::stop_when): there is nothing left to train. "
                    "To go on from there: another --output, and its checkpoint as --resume PATH");
  if (spec_.plan.stops())
    return log_info("the run in '" + spec_.options.output +
                    "' was stopped by its time limit after " + steps +
                    " steps: there is nothing left to train. A longer limit goes on");
  log_info("the run in '" + spec_.options.output + "' has " + steps + " steps, and " +
           std::to_string(spec_.plan.total_steps()) +
           " are asked for (--epochs, --max-steps): there is nothing left to train");
}

}  // namespace lockstep::training

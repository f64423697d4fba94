#include "coord/run_keeper.h"

#include <algorithm>

#include "base/seconds.h"
#include "coord/timers.h"
#include "coord/words.h"

namespace lockstep::coord {

RunKeeper::RunKeeper(const Config& config, RunFacts& facts, const Workers& workers, Turn& turn,
                     ToHosts to_hosts)
    : config_(config),
      facts_(facts),
      workers_(workers),
      turn_(turn),
      to_hosts_(std::move(to_hosts)),
      incidents_(config.timing.incident_window),
      replacements_(config.max_replacements, config.give_back_after),
      restarts_(config.max_restarts, config.no_progress_restarts),
      news_(turn),
      attach_(config.timing.attach) {
  facts_.wanted = facts_.target = config.workers;
}

void RunKeeper::hear(const Report& report) {
  std::visit([this](const auto& what) { hear(what); }, report);
}

void RunKeeper::hear(const report::Described& described) {
  const bool starts = facts_.group == Group::kStarting;
  if (!starts && facts_.group != Group::kRunning) return;
  const Worker& worker = workers_.at(described.uid);
  std::optional<Error> refusal = described.refusal;
  if (!refusal && starts && facts_.target > described.virtual_workers)
    refusal = Error{ErrorKind::kUsage,
                    std::to_string(facts_.target) + " workers were asked for" +
                        (config_.attached ? "" : " (--nproc-per-node)") +
                        ", but the run has only " + std::to_string(described.virtual_workers) +
                        " virtual workers (--virtual-workers), and each worker needs at least one"};
  if (!refusal) {
    facts_.virtual_workers = described.virtual_workers;
    facts_.elastic = described.elastic;
    return to_hosts_(order::Admit{described.uid, !starts});
  }
  to_hosts_(order::Refuse{described.uid, *refusal});
  const std::string name = worker_name(described.rank.value(), described.uid.value());
  if (starts && config_.attached) return news_.tell_refusal(name, worker, *refusal);
  if (starts) return stop_now(exit_code(refusal->kind), name + ": " + refusal->message);
  turn_.print(action::Severity::kError, name + " cannot take part: " + refusal->message);
}

void RunKeeper::hear(const report::Ready& ready) {
  if (facts_.group == Group::kRunning) order_.push_back(ready.uid);
}

void RunKeeper::hear(const report::Seen& seen) {
  note_last_step(seen.last_step);
  applied_ = std::max(applied_, seen.applied);
  furthest_ = std::max(furthest_, applied_);
  news_.tell_held(applied_, facts_.is_ending());

  std::vector<WorkerProgress> survivors;
  std::uint64_t applied_by_all = std::numeric_limits<std::uint64_t>::max();
  std::uint32_t members = 0;
  for (const auto& [uid, worker] : workers_) {
    if (!worker.holds_state()) continue;
    survivors.push_back(worker.seen);
    applied_by_all = std::min(applied_by_all, worker.seen.applied);
    members += worker.leaving() ? 0 : 1;
  }
  if (survivors.empty()) return;
  tell_scaled(members);
  record(incidents_.observe(survivors, applied_by_all, members >= facts_.target, turn_.now),
         "an incident has moved on");
}

void RunKeeper::hear(const report::LoopEnded& ended) {
  --facts_.target;
  ended_early_ += (ended_early_.empty() ? "" : ", ") + ended.name;
}

// Nothing is lost with it, and its place waits: a wrong command of one shall not end the others.
void RunKeeper::hear(const report::LostAtStart& lost) {
  if (!anybody_has_come())
    return stop_now(exit_code(ErrorKind::kUnavailable), lost.fact + ", and nobody else is there",
                    lost.told);
  if (!lost.told)
    turn_.print(action::Severity::kWarning,
                lost.fact + "; the others wait for the same command again");
}

void RunKeeper::hear(const report::NoMoreWorkers& lost) {
  if (facts_.group != Group::kRunning) return restart_or_stop(lost.text, lost.from_outside);
  turn_.print(action::Severity::kError, lost.text + "; no more workers are started");
  facts_.target = workers_.active();
  cannot_grow_ = true;
}

// Others may be on their way, but not for as long.
void RunKeeper::on(const event::StarterGone&) {
  attach_ = std::min(attach_, turn_.now - facts_.since + config_.timing.attach_orphaned);
}

template <class Visit>
void RunKeeper::each_timer(Visit visit) {
  const Timing& timing = config_.timing;
  const bool starting = facts_.group == Group::kStarting;
  const bool running = facts_.group == Group::kRunning;
  if (starting)
    visit(facts_.since + timing.first_table, [this] {
      stop_now(exit_code(ErrorKind::kUnavailable), "not all workers were ready within " +
                                                       seconds(config_.timing.first_table) +
                                                       missing_ranks());
    });
  if (starting && config_.attached && !anybody_has_come())
    visit(facts_.since + attach_, [this] {
      stop_now(exit_code(ErrorKind::kUnavailable), "no worker has come within " + seconds(attach_));
    });
  if (running && orphaned_since_)
    visit(*orphaned_since_ + timing.orphan_grace, [this] {
      restart_or_stop("all workers that could finish the transaction died", blame_outside());
    });
  if (const auto limit = clock_.deadline(); running && limit)
    visit(*limit, [this] {
      clock_.set_up();
      turn_.print(action::Severity::kInfo, "the run's time limit is reached after " +
                                               seconds(clock_.ran(turn_.now)) +
                                               "; it stops after the next step");
    });
  if (waiting_restart_)
    visit(waiting_restart_->since + timing.signal_wait, [this] {
      const WaitingRestart due = *std::exchange(waiting_restart_, std::nullopt);
      restart_or_stop(due.reason, due.from_outside);
    });
}

bool RunKeeper::fire_timer() {
  return fire_one(turn_.now, [this](const auto& visit) { each_timer(visit); });
}

std::uint64_t RunKeeper::next_deadline(std::uint64_t until) {
  return earliest(until, [this](const auto& visit) { each_timer(visit); });
}

// Every time that the group is given; a run's time limit counts pauses too.
void RunKeeper::forget_pause(std::uint64_t gap) {
  facts_.since += gap;
  if (orphaned_since_) *orphaned_since_ += gap;
  if (waiting_restart_) waiting_restart_->since += gap;
}

void RunKeeper::look() {
  end_if_empty();
  if (facts_.group == Group::kRunning && facts_.elastic) check_survivors();
  if (facts_.group == Group::kStarting && facts_.target == 0)
    restart_or_stop("no worker is left", blame_outside());
  end_if_empty();
}

void RunKeeper::write_tables() {
  if (facts_.group == Group::kStarting) write_first_table();
  if (facts_.group == Group::kRunning || facts_.in_order) propose();
}

}  // namespace lockstep::coord

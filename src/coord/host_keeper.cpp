#include "coord/host_keeper.h"

#include <algorithm>
#include <csignal>
#include <utility>

namespace lockstep::coord {

HostKeeper::HostKeeper(const Config& config, const RunFacts& run, Turn& turn, ToRun to_run)
    : config_(config),
      run_(run),
      turn_(turn),
      to_run_(std::move(to_run)),
      spawner_(config, run, turn, workers_),
      donor_(config.timing.heal_retry),
      standstills_(config, turn, workers_, board_) {}

void HostKeeper::on(const event::Forked& forked) {
  Worker* worker = workers_.find(forked.uid);
  if (worker == nullptr || worker->dismissed)
    turn_.act(action::Kill{forked.uid, SIGKILL}, "it is not wanted any more");
  if (worker == nullptr) return;
  worker->stage = Stage::kForked;
  worker->since = turn_.now;
}

void HostKeeper::on(const event::SpawnFailed& failed) {
  const std::optional<Worker> worker = workers_.take(failed.uid);
  if (!worker) return;
  spawner_.note_gone(*worker);
  if (run_.group == Group::kStarting)
    return to_run_(report::MustEnd{exit_code(ErrorKind::kUnavailable),
                                   "cannot start a worker: " + failed.reason});
  if (run_.group != Group::kRunning || worker->dismissed) return;
  report_lost(*worker, {Cause::kFailedSpawn, "not started: " + failed.reason});
}

void HostKeeper::on(const event::Hello& hello) {
  Worker* worker = workers_.find(hello.uid);
  if (worker == nullptr)
    return turn_.act(action::Kill{hello.uid, SIGKILL}, "it is not wanted any more");
  if (worker->stage < Stage::kGreeted) worker->stage = Stage::kGreeted;
  spawner_.note_hello();
}

void HostKeeper::on(const event::Described& described) {
  const Worker* worker = workers_.find(described.uid);
  if (worker == nullptr || worker->stage >= Stage::kAdmitted || worker->dismissed) return;
  to_run_(report::Described{described.uid, board_.rank_of(*worker), described.virtual_workers,
                            described.elastic, described.refusal});
}

void HostKeeper::on(const event::Ready& ready) {
  Worker* worker = workers_.find(ready.uid);
  if (worker == nullptr || worker->stage != Stage::kAdmitted || worker->dismissed) return;
  worker->stage = Stage::kReady;
  spawner_.note_ready();
  worker->next = ready.next;
  worker->state_hash = ready.state_hash;
  worker->time = ready.time;
  worker->complete = ready.complete;
  to_run_(report::Ready{ready.uid});
}

void HostKeeper::on(const event::Stopped& stopped) {
  Worker* worker = workers_.find(stopped.uid);
  if (worker != nullptr && !worker->stopped_at) worker->stopped_at = turn_.now;
}

void HostKeeper::on(const event::Continued& continued) {
  Worker* worker = workers_.find(continued.uid);
  if (worker == nullptr) return;
  const bool all_were = !goes_on_without(*worker);
  worker->stopped_at.reset();
  worker->stop_told = false;
  if (!all_were) return;
  for (auto& [uid, other] : workers_)  // whoever continues all does it one by one
    if (other.stopped_at) other.stopped_at = turn_.now;
}

// Somebody else holds the state and runs. One that is to leave can stay as long as it is in the
// newest table (order::Stay).
bool HostKeeper::goes_on_without(const Worker& worker) const {
  return workers_.any([&](const Worker& other) {
    const bool can_stay = other.stage == Stage::kMember ||
                          (other.stage == Stage::kLeaving && !other.left &&
                           !board_.tables.empty() && board_.tables.back().has(other.uid));
    return other.uid != worker.uid && can_stay && !other.stopped_at && !other.evicted;
  });
}

void HostKeeper::on(const event::Progress& report) {
  const bool counts = run_.group == Group::kRunning || run_.group == Group::kStopping ||
                      run_.group == Group::kFinishing;
  if (!counts) return;
  note_members(report);
  report::Seen best;
  for (const Table& table : board_.tables)
    best.last_step = std::max(best.last_step, table.stop_after_step);
  for (const WorkerProgress& seen : report.workers) {
    best.applied = std::max(best.applied, seen.applied);
    if (Worker* worker = workers_.find(seen.uid)) worker->seen = seen;
  }
  note_signals();
  note_slots(report);
  to_run_(best);
  standstills_.see(report);
}

void HostKeeper::note_members(const event::Progress& report) {
  for (const Table& table : report.tables) {
    for (const Member& member : table.members) {
      Worker* worker = workers_.find(member.uid);
      if (worker == nullptr || worker->stage < Stage::kReady) continue;
      if (worker->stage == Stage::kReady) worker->stage = Stage::kMember;
      worker->first_txn = std::min(worker->first_txn.value_or(table.txn), table.txn);
    }
  }
  if (!report.tables.empty()) board_.tables = report.tables;
}

void HostKeeper::note_slots(const event::Progress& report) {
  // The next table of whoever works may still list the dead; and they may have been ahead of all
  // others, and have published one themselves.
  std::uint64_t last_listed = 0;
  for (const Table& table : board_.tables) last_listed = std::max(last_listed, table.txn.value());
  for (const WorkerProgress& seen : report.workers) {
    const Worker* worker = workers_.find(seen.uid);
    if (worker != nullptr && worker->holds_state())
      last_listed = std::max({last_listed, seen.current_txn.value() + 1, seen.applied + 1});
  }
  std::optional<std::uint64_t> applied_by_all;
  for (const auto& [uid, worker] : workers_)
    if (worker.holds_state())
      applied_by_all = std::min(applied_by_all.value_or(worker.seen.applied), worker.seen.applied);
  if (applied_by_all) spawner_.note_slots(last_listed, *applied_by_all);
}

void HostKeeper::on(const event::Left& left) {
  Worker* worker = workers_.find(left.uid);
  if (worker == nullptr || !worker->may_leave) return;
  worker->left = true;
  worker->going_at = turn_.now;
}

void HostKeeper::on(const event::Closed& closed) {
  Worker* worker = workers_.find(closed.uid);
  if (worker != nullptr && !worker->closed_at) worker->closed_at = turn_.now;
}

void HostKeeper::on(const event::ZygoteLost& lost) {
  if (const auto report = spawner_.on(lost)) to_run_(*report);
}

void HostKeeper::obey(const Order& order) {
  std::visit([this](const auto& what) { obey(what); }, order);
}

void HostKeeper::obey(const order::Admit& admit) {
  Worker& worker = workers_.at(admit.uid);
  worker.stage = Stage::kAdmitted;
  worker.newcomer = admit.newcomer;
  turn_.act(action::Admit{admit.uid, admit.newcomer},
            admit.newcomer ? "it takes the state from a live peer" : "the group starts");
}

void HostKeeper::obey(const order::Refuse& refuse) {
  workers_.at(refuse.uid).refused = true;
  turn_.act(action::Refuse{refuse.uid, refuse.error}, "it does not fit the run");
}

void HostKeeper::obey(const order::Begin&) {
  workers_.clear();  // a late fork of the old zygote comes with the old board, and is killed at
                     // its first word
  board_ = {};
  proposed_.clear();
  donor_ = Donor(config_.timing.heal_retry);
  standstills_.begin_group();
  signal_at_.reset();
  spawner_.start_again();
}

void HostKeeper::obey(const order::FirstTable& first) {
  const Table& table = first.table;
  for (const Member& seated : table.members) {
    Worker& member = workers_.at(seated.uid);
    member.stage = Stage::kMember;
    member.first_txn = table.txn;
  }
  board_.tables = {table};
  obey(order::Propose{table, "all workers are ready"});
  turn_.act(action::WriteTable{table, first.ran_ns}, "all workers are ready");
}

void HostKeeper::obey(const order::Propose& propose) {
  proposed_.clear();
  for (const Member& member : propose.wish.members) {
    workers_.at(member.uid).proposed = true;
    proposed_.push_back(member.uid);
  }
  turn_.act(action::WriteProposal{propose.wish}, propose.reason);
}

void HostKeeper::obey(const order::Shrink&) {
  for (auto it = workers_.rbegin(); it != workers_.rend() && workers_.active() > run_.target; ++it)
    if (!it->second.leaving() && !it->second.holds_state())
      dismiss(it->second, "fewer workers are wanted");
}

void HostKeeper::obey(const order::Leave& leave) {
  Worker& worker = workers_.at(leave.uid);
  worker.stage = Stage::kLeaving;
  worker.may_leave = true;
}

void HostKeeper::obey(const order::Stay& stay) { workers_.at(stay.uid).stage = Stage::kMember; }

void HostKeeper::evict(Worker& worker, Cause cause, std::string text) {
  if (worker.evicted || worker.dismissed) return;
  worker.evicted_for = cause;
  turn_.act(action::Kill{worker.uid, SIGKILL}, board_.name(worker) + ": " + text);
  worker.evicted = std::move(text);
}

void HostKeeper::dismiss(Worker& worker, const char* why) {
  worker.dismissed = true;
  worker.going_at = turn_.now;
  if (config_.attached && worker.stage > Stage::kSpawning)
    return turn_.act(action::End{worker.uid, run_.stop_code, why}, why);
  turn_.act(action::Kill{worker.uid, SIGKILL}, why);
}

}  // namespace lockstep::coord

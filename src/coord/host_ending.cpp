// How a host's workers end: by themselves, or because the run does.
#include <algorithm>
#include <csignal>

#include "coord/board.h"
#include "coord/host_keeper.h"
#include "coord/ownership.h"
#include "coord/words.h"

namespace lockstep::coord {
namespace {

// Of a worker's own words: it stops the run, for another try would only meet it again.
bool is_final(ErrorKind kind) {
  return kind == ErrorKind::kUsage || kind == ErrorKind::kBadData || kind == ErrorKind::kDisk ||
         kind == ErrorKind::kResumable;
}

bool computes_a_share(const WorkerProgress& seen) {
  return seen.phase == Phase::kData || seen.phase == Phase::kForward ||
         seen.phase == Phase::kBackward;
}

}  // namespace

void HostKeeper::on(const event::Failed& failed) {
  Worker* worker = workers_.find(failed.uid);
  if (worker == nullptr || worker->refused || worker->dismissed || run_.is_stopping()) return;
  const bool final = is_final(failed.error.kind);
  // Its own trouble: the others are training, or wait for another one in its place.
  const bool refused = run_.group == Group::kStarting
                           ? config_.attached
                           : run_.group == Group::kRunning && !worker->holds_state() && final;
  if (refused)
    worker->refused = true;
  else
    worker->failure = failed.error;
  say(report::Failed{failed.uid, board_.rank_of(*worker), failed.error, final, refused});
}

void HostKeeper::on(const event::Exited& exited) {
  std::optional<Worker> taken = workers_.take(exited.uid);
  if (!taken) return;
  Worker& worker = *taken;
  ExitStatus status = exited.status;
  // What it had to do is done, and nobody can know more of a process that is not our child.
  if (status.is_unknown() && (worker.left || run_.group == Group::kFinishing)) status = {0, 0};
  if (run_.group == Group::kRunning && run_.elastic && !worker.holds_state())
    worker.refused = worker.refused || is_wrong_input(status);
  standstills_.forget(worker.uid);

  const bool group_works = run_.group != Group::kRestarting && run_.group != Group::kFinishing;
  if (worker.proposed && !worker.left && group_works) {
    board_.dead.push_back(worker.uid);
    turn_.act(action::AppendDead{worker.uid},
              board_.name(worker) + " is gone: " + describe(status));
  }
  stopped_ = stopped_ || has_stopped(worker);
  spawner_.note_gone(worker);
  if (run_.group == Group::kFinishing && status.code != 0 && !worker.dismissed) {
    turn_.print(action::Severity::kWarning, board_.name(worker) + " ended with " +
                                                describe(status) + " after the run was finished");
    // Killed, it has lost nothing; its own error is one of the program.
    if (status.signal == 0) say(report::EndedLate{status.code});
  }
  if (run_.group == Group::kStarting || run_.group == Group::kRunning) judge_exit(worker, status);
  if (run_.in_order && !worker.left && !worker.dismissed)
    turn_.print(action::Severity::kWarning, board_.name(worker) + " died (" +
                                                worker.evicted.value_or(describe(status)) +
                                                ") as the run stops");
}

bool HostKeeper::has_stopped(const Worker& worker) const {
  return worker.left && std::ranges::any_of(board_.tables, [&](const Table& table) {
           return (table.flags & kStop) != 0 && table.txn.value() <= worker.seen.applied;
         });
}

void HostKeeper::judge_exit(Worker& worker, ExitStatus status) {
  const std::string name = board_.name(worker);
  if (run_.group == Group::kStarting && config_.attached)
    return say(report::LostAtStart{name + " is gone before the first step (" +
                                       (worker.evicted ? *worker.evicted : describe(status)) + ")",
                                   worker.refused});
  // Once it has left in order, its own end is nobody's business.
  if (worker.dismissed || (worker.left && worker.stage == Stage::kLeaving)) return;
  if (!run_.elastic && status.signal == 0 && status.code == 0) return say(report::LoopEnded{name});
  if (is_wrong_input(status) && !worker.refused)
    return say(report::MustEnd{
        status.code, name + " ended with " + describe(status) +
                         ": wrong usage or bad data, another try would end the same way"});
  if (worker.evicted && status.signal == SIGKILL)
    return report_lost(worker, {worker.evicted_for, *worker.evicted});
  const bool well = status.code == 0, told_to_leave = worker.left && well;
  report_lost(worker,
              {is_from_outside(status) || told_to_leave ? Cause::kFromOutside : Cause::kOwnDoing,
               describe(status), well, is_by(status, config_.stop_signals)});
}

void HostKeeper::report_lost(const Worker& worker, const Death& death) {
  report::Lost lost{worker, board_.rank_of(worker), death, std::nullopt,
                    outlook(worker, death.cause)};
  if (death.cause == Cause::kOwnDoing && worker.holds_state()) lost.shares = shares_of(worker);
  if (lost.shares && computes_a_share(worker.seen) &&
      std::ranges::find(*lost.shares, worker.seen.item) == lost.shares->end())
    lost.shares.reset();  // another's, once more: its own it had done, or not begun
  say(lost);
}

report::Outlook HostKeeper::outlook(const Worker& worker, Cause cause) {
  report::Outlook next;
  next.has_room = board_.dead.size() + workers_.size() < kMaxDead;
  // Who ends before it takes part, and each time anew: tried less and less often, and not for ever.
  next.in_vain = cause == Cause::kFailedSpawn || worker.is_on_its_way();
  const bool missed = run_.elastic && !config_.attached && workers_.active() < own().target;
  if (next.in_vain && missed) spawner_.note_in_vain();
  next.failed = spawner_.failed();
  next.again = spawner_.tries_on() && !worker.refused;
  next.free = cause == Cause::kHung && !standstills_.strict();
  return next;
}

// Nothing: its transaction's table is not on the board any more.
std::optional<std::vector<std::uint32_t>> HostKeeper::shares_of(const Worker& worker) const {
  for (const Table& table : board_.tables) {
    if (table.txn != worker.seen.current_txn) continue;
    const auto self = std::find_if(table.members.begin(), table.members.end(),
                                   [&](const Member& member) { return member.uid == worker.uid; });
    if (self == table.members.end()) continue;
    std::vector<WorkerUid> earlier(board_.dead);
    std::erase(earlier, worker.uid);
    const Ownership ownership(table, run_.virtual_workers, stay_, earlier);
    return ownership.items_of(static_cast<std::uint32_t>(self - table.members.begin()));
  }
  return std::nullopt;
}

void HostKeeper::obey(const order::StopInOrder&) {
  orderly_until_ = turn_.now + config_.timing.orderly;
  tell_stop_wait_at_ = turn_.now + kStopWaitTold;
  for (auto& [uid, worker] : workers_) {
    if (worker.stopped_at && !config_.attached)
      turn_.act(action::Kill{uid, SIGCONT}, "it is to leave, and is stopped");
    // In the first table, which may not have come here.
    const bool is_seated = worker.stage == Stage::kReady && !worker.newcomer;
    if (worker.holds_state() || is_seated)
      worker.may_leave = true;
    else if (!worker.dismissed)
      dismiss(worker, "the run stops");
  }
}

void HostKeeper::obey(const order::Stop& stop) {
  if (stop.signal) term_until_ = turn_.now + config_.timing.kill_grace;
  tell_stop_wait_at_ = turn_.now + kStopWaitTold;
  kill_all(stop.signal.value_or(SIGKILL), "the run stops");
}

void HostKeeper::obey(const order::Kill& kill) {
  orderly_until_.reset();
  term_until_.reset();
  kill_all(SIGKILL, kill.why);
}

// What the program does after the run takes as long as it takes.
void HostKeeper::obey(const order::Finish&) {
  const bool any = workers_.any([](const Worker& worker) { return worker.holds_state(); });
  if (!any && !finished_ && run_.hosts.size() > 1)
    turn_.print(action::Severity::kWarning,
                "the run has ended while this node had no worker in it: the other nodes have the "
                "last checkpoint, result.json and the end of the records");
  record_final();
  orderly_until_.reset();
  term_until_.reset();
  for (auto& [uid, worker] : workers_)
    if (!worker.holds_state() && !worker.dismissed) dismiss(worker, "the run is finished");
}

void HostKeeper::kill_all(int signal, const std::string& why) {
  for (auto& [uid, worker] : workers_) {
    worker.dismissed = worker.dismissed || signal == SIGKILL || worker.stage == Stage::kSpawning;
    const bool told = config_.attached && signal != SIGKILL && worker.stage > Stage::kSpawning;
    if (!told)
      turn_.act(action::Kill{uid, signal}, why);
    else if (!worker.failure && !worker.refused)  // else it is about to end by itself
      turn_.act(action::End{uid, run_.stop_code, run_.stop_reason}, why);
  }
}

void HostKeeper::kill_late(std::uint64_t waited, const char* for_what) {
  std::string late;
  for (const auto& [uid, worker] : workers_)
    if (worker.stage > Stage::kSpawning && !worker.dismissed)
      late += (late.empty() ? "" : ", ") + board_.name(worker);
  if (!late.empty())
    turn_.print(action::Severity::kWarning,
                not_ended(late, waited, for_what, config_.attached ? "" : " (--shutdown-timeout)"));
  kill_all(SIGKILL, "it has not ended in time");
}

void HostKeeper::tell_stop_wait() {
  tell_stop_wait_at_.reset();
  const auto until = orderly_until_ ? orderly_until_ : term_until_;
  std::string left;
  for (const auto& [uid, worker] : workers_)
    if (!worker.is_ghost()) left += (left.empty() ? "" : ", ") + board_.name(worker);
  if (until && *until > turn_.now && !left.empty())
    turn_.print(action::Severity::kInfo, waiting_for(left, *until - turn_.now));
}

}  // namespace lockstep::coord

// How a run ends: by itself, by a signal, by an error, or because nothing can be mended any more.
#include <csignal>

#include "coord/membership_state.h"

namespace lockstep::coord {
namespace {

// Of a worker's own words: it stops the run, for another try would only meet it again.
bool is_final(ErrorKind kind) {
  return kind == ErrorKind::kUsage || kind == ErrorKind::kBadData || kind == ErrorKind::kDisk ||
         kind == ErrorKind::kResumable;
}

}  // namespace

void Coordinator::State::kill_all(int signal, const char* why) {
  for (auto& [uid, worker] : workers) {
    worker.dismissed = worker.dismissed || signal == SIGKILL || worker.stage == Stage::kSpawning;
    const bool told = config.attached && signal != SIGKILL && worker.stage > Stage::kSpawning;
    if (!told)
      act(action::Kill{uid, signal}, why);
    else if (!worker.failure && !worker.refused)  // else it is about to end by itself
      act(action::End{uid, facts.stop_code, facts.stop_reason}, why);
  }
}

void Coordinator::State::stop_now(int code, const std::string& reason, bool told, int signal) {
  if (facts.is_stopping()) return;
  const bool gently = config.attached || !facts.elastic || facts.group == Group::kFinishing;
  for (Incident& incident : incidents.close_all(4))
    act(action::RecordIncident{std::move(incident)}, reason);
  facts.group = Group::kStopping;
  facts.stop_code = code;
  facts.stop_reason = reason;
  waiting_restart.reset();
  if (code != 0 && !told) print(action::Severity::kError, reason);
  if (gently) term_until = turn.now + timing.kill_grace;
  stop_wait_told_at = turn.now + kStopWaitTold;
  kill_all(gently ? signal : SIGKILL, "the run stops");
}

void Coordinator::State::stop_by(int signal, const std::string& reason) {
  const int code = 128 + signal;
  if (facts.group != Group::kRunning || !facts.elastic)
    return stop_now(code, reason, false, signal);
  print(action::Severity::kInfo,
        reason + "; the workers leave at the next step, the same command goes on from there");
  facts.group = Group::kStopping;
  facts.stop_code = code;
  facts.stop_reason = reason;
  orderly_until = turn.now + timing.orderly;
  stop_wait_told_at = turn.now + kStopWaitTold;
  for (auto& [uid, worker] : workers) {
    if (worker.stopped_at && !config.attached)
      act(action::Kill{uid, SIGCONT}, "it is to leave, and is stopped");
    if (worker.holds_state())
      worker.may_leave = true;
    else if (!worker.dismissed)
      dismiss(worker, "the run stops");
  }
  propose();
}

void Coordinator::State::note_stop() {
  for (const Table& table : board.tables)
    if (clock.name_last(table.stop_after_step))
      act(action::RecordStop{clock.stop(turn.now)}, "a table names the last step");
}

void Coordinator::State::on(const event::Failed& failed) {
  Worker* worker = find(failed.uid);
  if (worker == nullptr || worker->refused || worker->dismissed || facts.is_stopping()) return;
  if (facts.group == Group::kStarting && config.attached)
    return refuse_at_start(*worker, failed.error);
  if (facts.group == Group::kRunning && !worker->holds_state() && is_final(failed.error.kind)) {
    worker->refused = true;  // its own trouble: the others are training
    return print(action::Severity::kError,
                 name(*worker) + " cannot take part: " + failed.error.message);
  }
  worker->failure = failed.error;
  if (facts.group != Group::kFinishing && is_final(failed.error.kind))
    return stop_now(exit_code(failed.error.kind), name(*worker) + ": " + failed.error.message);
  news.tell_failure(name(*worker), *worker, failed.error);
}

void Coordinator::State::on(const event::Finished& finished) {
  const bool in_order =
      facts.group == Group::kRunning || (facts.group == Group::kStopping && orderly_until);
  if (find(finished.uid) == nullptr || !in_order) return;
  act(action::SetFinalRecorded{finished.uid},
      "the last transaction is committed and the final checkpoint published");
  for (Incident& incident : incidents.close_all(1))
    act(action::RecordIncident{std::move(incident)}, "the run is finished");
  facts.group = Group::kFinishing;
  news.tell_held(applied, facts.is_ending());
  facts.stop_code = 0;
  facts.stop_reason = "finished";
  orderly_until.reset();
  term_until.reset();  // what the program does after the run takes as long as it takes
  for (auto& [uid, worker] : workers)
    if (!worker.holds_state() && !worker.dismissed) dismiss(worker, "the run is finished");
}

void Coordinator::State::on(const event::RecordsFailed& failed) {
  stop_now(exit_code(failed.error.kind), failed.error.message);
}

void Coordinator::State::on(const event::Exited& exited) {
  std::optional<Worker> taken = workers.take(exited.uid);
  if (!taken) return;
  Worker& worker = *taken;
  ExitStatus status = exited.status;
  // What it had to do is done, and nobody can know more of a process that is not our child.
  if (status.is_unknown() && (worker.left || facts.group == Group::kFinishing)) status = {0, 0};
  if (facts.group == Group::kRunning && facts.elastic && !worker.holds_state())
    worker.refused = worker.refused || is_wrong_input(status);
  standstills.forget(worker.uid);

  const bool group_works = facts.group != Group::kRestarting && facts.group != Group::kFinishing;
  if (worker.proposed && !worker.left && group_works) {
    board.dead.push_back(worker.uid);
    act(action::AppendDead{worker.uid}, name(worker) + " is gone: " + describe(status));
  }
  worker.proposed ? slots.retire(worker.slot) : slots.give_back(worker.slot);
  if (facts.group == Group::kFinishing && status.code != 0 && !worker.dismissed) {
    print(action::Severity::kWarning,
          name(worker) + " ended with " + describe(status) + " after the run was finished");
    // Killed, it has lost nothing; its own error is one of the program.
    if (facts.stop_code == 0 && status.signal == 0) facts.stop_code = status.code;
  }
  if (facts.group != Group::kStarting && facts.group != Group::kRunning) return;
  if (facts.group == Group::kStarting && config.attached) return on_lost_at_start(worker, status);
  // Once it has left in order, its own end is nobody's business.
  if (worker.dismissed || (worker.left && worker.stage == Stage::kLeaving)) return;
  if (!facts.elastic && status.signal == 0 && status.code == 0) {
    --facts.target;  // a loop of its own has come to its end
    ended_early += (ended_early.empty() ? "" : ", ") + name(worker);
    return;
  }
  if (is_wrong_input(status) && !worker.refused)
    return stop_now(status.code,
                    name(worker) + " ended with " + describe(status) +
                        ": wrong usage or bad data, another try would end the same way");

  if (worker.evicted && status.signal == SIGKILL)
    return on_death(worker, {worker.evicted_for, *worker.evicted});
  const bool well = status.code == 0, told_to_leave = worker.left && well;
  on_death(worker,
           {is_from_outside(status) || told_to_leave ? Cause::kFromOutside : Cause::kOwnDoing,
            describe(status), well, is_by(status, config.stop_signals)});
}

void Coordinator::State::end_if_empty() {
  if (waiting_restart) return;
  if (!std::all_of(workers.begin(), workers.end(),
                   [](const auto& entry) { return entry.second.is_ghost(); }))
    return;
  if (facts.group == Group::kRestarting) {
    workers.clear();  // a late fork of the old zygote comes with the old board, and is killed at
                      // its first word
    begin_group();
    act(action::RestartGroup{restarts.used()}, "all workers of the old group are gone");
    if (config.zygote && zygote.given_up()) {  // given up, and counted anew
      zygote = {};
      act(action::RestartZygote{}, "the group starts again");
    }
    return;
  }
  const bool loops_done = !facts.elastic && facts.group == Group::kRunning;
  if (facts.group != Group::kStopping && facts.group != Group::kFinishing && !loops_done) return;
  for (Incident& incident : incidents.close_all(1))
    act(action::RecordIncident{std::move(incident)}, "the run ends");
  facts.group = Group::kStopped;
  act(action::Stop{facts.stop_code}, loops_done ? "all workers have exited 0" : facts.stop_reason);
}

// What will be done about failures: once, before the first.
void Coordinator::State::tell_policy() {
  if (std::exchange(policy_told, true) || config.asked_for_help) return;
  if (config.attached)
    return print(
        action::Severity::kInfo,
        std::to_string(config.workers) + " workers, started by hand; " +
            (facts.elastic ? "the others go on without one that dies, and the same command "
                             "joins them again"
                           : "when one dies, all are ended"));
  std::string first = "when one dies, all are stopped";
  if (facts.elastic)
    first = "replacements of those that die: " +
            std::to_string(std::uint64_t(config.max_replacements)) + " (--max-replacements)";
  print(action::Severity::kInfo,
        policy(static_cast<int>(config.workers), first, config.max_restarts));
}

std::string Coordinator::State::those_left() const {
  std::string names;
  for (const auto& [uid, worker] : workers)
    if (!worker.is_ghost()) names += (names.empty() ? "" : ", ") + name(worker);
  return names;
}

void Coordinator::State::tell_stop_wait() {
  stop_wait_told_at.reset();
  const auto until = orderly_until ? orderly_until : term_until;
  const std::string left = those_left();
  if (until && *until > turn.now && !left.empty())
    print(action::Severity::kInfo, waiting_for(left, *until - turn.now));
}

// `members`: those that are to stay. Done: as many as are wanted are in a table, and whoever was to
// leave is gone.
void Coordinator::State::tell_scaled(std::uint32_t members) {
  const bool leaving = std::any_of(workers.begin(), workers.end(), [](const auto& entry) {
    return entry.second.stage == Stage::kLeaving;
  });
  if (!scaled_from || members != facts.target || leaving) return;
  const std::uint32_t before = *std::exchange(scaled_from, std::nullopt);
  if (before == facts.target) return;
  print(action::Severity::kInfo,
        std::string("the group has ") + (before < facts.target ? "grown" : "shrunk") + " from " +
            std::to_string(before) + " to " + std::to_string(facts.target) + " workers");
}

}  // namespace lockstep::coord

// What a signal means: to the launcher, that the run is to end; to a worker, that the run or this
// worker is. Handlers of workers that take part in transactions note it (worker/stop_signals.h);
// others die of it.
#include "base/signal_name.h"
#include "coord/membership_state.h"

namespace lockstep::coord {
namespace {

// It holds the state, is to stay, and has noted a signal or could have.
bool counts(const Worker& worker) {
  return worker.stage == Stage::kMember && !worker.dismissed && !worker.evicted &&
         (worker.seen.signal != 0 || !worker.stopped_at);
}

bool has_unanswered(const Worker& worker) {
  return worker.seen.signal != 0 && !worker.signal_answered && !worker.leaving() && !worker.evicted;
}

}  // namespace

void Coordinator::State::on(const event::Signal& signal) {
  if (facts.group == Group::kStopped) return;
  const bool again = last_signal && last_signal->first == signal.number &&
                     turn.now - last_signal->second < timing.same_signal;
  last_signal = {signal.number, turn.now};
  if (again) return;
  const std::string by = "stopped by " + signal_name(signal.number);
  if (facts.group == Group::kFinishing) return stop_by(signal.number, by + ", the run is finished");
  if (facts.group != Group::kStopping) return stop_by(signal.number, by);
  if (signal.number != SIGINT && signal.number != SIGQUIT) return;
  orderly_until.reset();
  term_until.reset();
  kill_all(SIGKILL, "a second signal: at once");
}

void Coordinator::State::note_worker_signals() {
  const bool any =
      facts.elastic && std::any_of(workers.begin(), workers.end(),
                                   [](const auto& entry) { return has_unanswered(entry.second); });
  if (!any)
    worker_signal_at.reset();
  else if (!worker_signal_at)
    worker_signal_at = turn.now;
}

// The launcher has had none meanwhile, or the run would be about to stop.
void Coordinator::State::answer_worker_signals() {
  worker_signal_at.reset();
  int signal = 0;
  bool all = true;
  for (const auto& [uid, worker] : workers) {
    if (!counts(worker)) continue;
    all = all && worker.seen.signal != 0;
    if (signal == 0) signal = worker.seen.signal;
  }
  if (all && signal != 0)
    return stop_by(signal, "stopped by " + signal_name(signal) + " to all workers");
  for (auto& [uid, worker] : workers)
    if (has_unanswered(worker)) let_go(worker);
}

// Whoever sent it wants this worker gone: a death from outside, but one that loses nothing.
void Coordinator::State::let_go(Worker& worker) {
  worker.signal_answered = true;
  const std::string signal = signal_name(worker.seen.signal);
  if (!worker.holds_state()) return evict(worker, Cause::kFromOutside, signal);
  worker.stage = Stage::kLeaving;
  worker.may_leave = true;
  IncidentBook::Entry& incident =
      incidents.add({worker.uid, board.rank_of(worker), signal}, std::nullopt, true, 0, turn.now);
  incident.report.txn = std::max(incident.report.txn, worker.seen.current_txn);
  const std::string then =
      active() < facts.target ? replace(worker, Cause::kFromOutside, incident) : "the others go on";
  print(action::Severity::kWarning,
        name(worker) + " got " + signal + " and leaves at the next step; " + then);
  act(action::RecordIncident{incident.report}, "a signal takes a worker out");
}

// Of a loop over a process group. Whoever ended the worker by a signal that asks for an end may
// be about to send it to the launcher, too; what the others die of meanwhile is the first one's
// death.
void Coordinator::State::restart_unless_signalled(const std::string& reason, const Death& death) {
  if (waiting_restart) return;
  const bool from_outside = death.cause == Cause::kFromOutside;
  if (!death.by_stop_signal || config.attached) return restart_or_stop(reason, from_outside);
  waiting_restart = WaitingRestart{turn.now, reason, from_outside};
}

}  // namespace lockstep::coord

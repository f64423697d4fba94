// How a run ends: by itself, by a signal, by an error, or because nothing can be mended any more.
#include <algorithm>
#include <utility>

#include "base/signal_name.h"
#include "coord/run_keeper.h"
#include "coord/words.h"

namespace lockstep::coord {

void RunKeeper::record(std::vector<Incident> incidents, const std::string& why) {
  for (Incident& incident : incidents) turn_.act(action::RecordIncident{std::move(incident)}, why);
}

void RunKeeper::stop_now(int code, const std::string& reason, bool told, int signal) {
  if (facts_.is_stopping()) return;
  const bool gently = config_.attached || !facts_.elastic || facts_.group == Group::kFinishing;
  record(incidents_.close_all(4), reason);
  facts_.group = Group::kStopping;
  facts_.stop_code = code;
  facts_.stop_reason = reason;
  waiting_restart_.reset();
  if (code != 0 && !told) turn_.print(action::Severity::kError, reason);
  tell_all(order::Stop{gently ? std::optional(signal) : std::nullopt});
}

void RunKeeper::stop_by(int signal, const std::string& reason) {
  const int code = 128 + signal;
  if (facts_.group != Group::kRunning || !facts_.elastic)
    return stop_now(code, reason, false, signal);
  turn_.print(action::Severity::kInfo,
              reason + "; the workers leave at the next step, the same command goes on from there");
  facts_.group = Group::kStopping;
  facts_.in_order = true;
  facts_.stop_code = code;
  facts_.stop_reason = reason;
  tell_all(order::StopInOrder{});
  propose();
}

void RunKeeper::hear(std::size_t, const report::OutOfTime&) { facts_.in_order = false; }

// Where nobody can finish the step under way, nobody is waited for. Once one has left, it is whole.
void RunKeeper::check_leavers() {
  const bool is_done = std::any_of(hosts_.begin(), hosts_.end(), [](const RunHost& host) {
    return host.view.stopped || host.finished;
  });
  if (!anybody_holds_state() && !is_done) return none_holds_state();
  check_orphans();
}

void RunKeeper::give_leavers_up(const std::string& reason) {
  facts_.in_order = false;
  turn_.print(action::Severity::kWarning,
              reason +
                  "; the run stops without the step that was under way, and the same command "
                  "goes on from the last checkpoint");
  record(incidents_.close_all(4), reason);
  tell_all(order::Kill{reason});
}

// Members wait until it is recorded, so no table is missed. Each host records it for its own.
void RunKeeper::note_last_step(std::size_t host, std::uint64_t step) {
  if (step == 0 || step == hosts_[host].stop_known) return;
  hosts_[host].stop_known = step;
  clock_.name_last(step);
  tell(host, order::RecordStop{clock_.stop(turn_.now)});
}

void RunKeeper::hear(std::size_t host, const report::Failed& failed) {
  const WorkerView* found = hosts_[host].view.find(failed.uid);
  if (found == nullptr) return;
  const WorkerView worker = *found;
  const std::string name = at(host) + worker_name(failed.rank.value(), failed.uid.value());
  if (failed.refused && facts_.group == Group::kStarting)
    return news_.tell_refusal(name, worker, failed.error);
  if (failed.refused)
    return turn_.print(action::Severity::kError,
                       name + " cannot take part: " + failed.error.message);
  // It cannot go on with what is left of the group, and a checkpoint can.
  if (facts_.group == Group::kRunning && facts_.elastic &&
      failed.error.kind == ErrorKind::kResumable)
    return restart_or_stop(name + ": " + failed.error.message, true);
  if (facts_.group != Group::kFinishing && failed.final)
    return stop_now(exit_code(failed.error.kind), name + ": " + failed.error.message);
  news_.tell_failure(name, worker, failed.error);
}

// The reason has been told on its own node alone.
void RunKeeper::hear(std::size_t host, const report::MustEnd& end) {
  if (facts_.group == Group::kFinishing) return;
  if (!is_several()) return stop_now(end.code, end.text, end.told);
  const std::string there = end.told ? "; what it says there tells why" : "";
  stop_now(end.code, "node " + std::to_string(host) + ": " + end.text + there);
}

void RunKeeper::hear(std::size_t, const report::EndedLate& ended) {
  if (facts_.stop_code == 0) facts_.stop_code = ended.code;
}

// To all workers of all hosts: the run is meant. Else those workers alone.
void RunKeeper::hear(std::size_t host, const report::Signalled&) {
  if (facts_.group != Group::kRunning) return;
  const int signal = hosts_[host].view.signal;
  const bool all = std::all_of(hosts_.begin(), hosts_.end(), [](const RunHost& other) {
    return other.view.signal != 0 || !other.view.any([](const WorkerView& worker) {
      return worker.holds_state() && !worker.dismissed;
    });
  });
  if (!all || signal == 0) return tell(host, order::LetGo{});
  stop_by(signal, "stopped by " + signal_name(signal) + " to all workers");
}

// Whoever is the first to interrupt another launcher has not seen that the run stops already.
void RunKeeper::hear(std::size_t host, const event::Signal& signal) {
  const auto before = hosts_[host].last_signal;
  if (before && before->first == signal.number &&
      turn_.now - before->second < config_.timing.same_signal)
    return;
  hosts_[host].last_signal = {signal.number, turn_.now};
  const std::string by = "stopped by " + signal_name(signal.number) +
                         (is_several() ? " to node " + std::to_string(host) : "");
  if (facts_.group == Group::kFinishing)
    return stop_by(signal.number, by + ", the run is finished");
  if (facts_.group != Group::kStopping) return stop_by(signal.number, by);
  if (signal.number != SIGINT && signal.number != SIGQUIT) return;
  if (is_several() && !before) return;
  facts_.in_order = false;
  tell_all(order::Kill{"a second signal: at once"});
}

void RunKeeper::hear(std::size_t host, const report::Finished&) {
  hosts_[host].finished = true;
  finish_if_all_have();
}

// A host that nobody of is left need not.
void RunKeeper::finish_if_all_have() {
  if (!facts_.is_training()) return;
  bool any = false;
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    const RunHost& host = hosts_[h];
    any = any || host.finished;
    if (!host.finished && facts_.hosts[h].standing == Standing::kHere && anybody_holds_state(h))
      return;
  }
  if (!any) return;
  facts_.group = Group::kFinishing;
  facts_.in_order = false;
  facts_.stop_code = 0;
  facts_.stop_reason = "finished";
  tell_all(order::Finish{});
  record(incidents_.close_all(1), "the run is finished");
  news_.tell_held(applied_, true);
}

void RunKeeper::hear(std::size_t host, const event::RecordsFailed& failed) {
  stop_now(exit_code(failed.error.kind), at(host) + failed.error.message);
}

void RunKeeper::end_if_empty() {
  const auto is_done = [](const RunHost& host) {
    return host.is_current() && host.view.is_empty();
  };
  for (std::size_t h = 0; h < hosts_.size(); ++h)
    if (facts_.hosts[h].standing != Standing::kOut && !is_done(hosts_[h])) return;
  if (waiting_restart_) return;
  if (facts_.group == Group::kRestarting) return begin_group();
  const bool loops_done = !facts_.elastic && facts_.group == Group::kRunning;
  if (facts_.group != Group::kStopping && facts_.group != Group::kFinishing && !loops_done) return;
  record(incidents_.close_all(1), "the run ends");
  facts_.group = Group::kStopped;
  turn_.act(action::Stop{facts_.stop_code},
            loops_done ? "all workers have exited 0" : facts_.stop_reason);
}

}  // namespace lockstep::coord

// How a run ends: by itself, by a signal, by an error, or because nothing can be mended any more.
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
  to_hosts_(order::Stop{gently ? std::optional(signal) : std::nullopt});
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
  to_hosts_(order::StopInOrder{});
  propose();
}

void RunKeeper::hear(const report::OutOfTime&) { facts_.in_order = false; }

// Members wait until it is recorded, so no table is missed.
void RunKeeper::note_last_step(std::uint64_t step) {
  if (clock_.name_last(step))
    turn_.act(action::RecordStop{clock_.stop(turn_.now)}, "a table names the last step");
}

void RunKeeper::hear(const report::Failed& failed) {
  const Worker& worker = workers_.at(failed.uid);
  const std::string name = worker_name(failed.rank.value(), failed.uid.value());
  if (failed.refused && facts_.group == Group::kStarting)
    return news_.tell_refusal(name, worker, failed.error);
  if (failed.refused)
    return turn_.print(action::Severity::kError,
                       name + " cannot take part: " + failed.error.message);
  if (facts_.group != Group::kFinishing && failed.final)
    return stop_now(exit_code(failed.error.kind), name + ": " + failed.error.message);
  news_.tell_failure(name, worker, failed.error);
}

void RunKeeper::hear(const report::MustEnd& end) { stop_now(end.code, end.text, end.told); }

void RunKeeper::hear(const report::EndedLate& ended) {
  if (facts_.stop_code == 0) facts_.stop_code = ended.code;
}

void RunKeeper::hear(const report::AllSignalled& all) {
  stop_by(all.signal, "stopped by " + signal_name(all.signal) + " to all workers");
}

void RunKeeper::on(const event::Signal& signal) {
  const bool again = last_signal_ && last_signal_->first == signal.number &&
                     turn_.now - last_signal_->second < config_.timing.same_signal;
  last_signal_ = {signal.number, turn_.now};
  if (again) return;
  const std::string by = "stopped by " + signal_name(signal.number);
  if (facts_.group == Group::kFinishing)
    return stop_by(signal.number, by + ", the run is finished");
  if (facts_.group != Group::kStopping) return stop_by(signal.number, by);
  if (signal.number != SIGINT && signal.number != SIGQUIT) return;
  facts_.in_order = false;
  to_hosts_(order::Kill{"a second signal: at once"});
}

void RunKeeper::on(const event::Finished& finished) {
  const bool in_order = facts_.group == Group::kRunning || facts_.in_order;
  if (workers_.find(finished.uid) == nullptr || !in_order) return;
  turn_.act(action::SetFinalRecorded{finished.uid},
            "the last transaction is committed and the final checkpoint published");
  record(incidents_.close_all(1), "the run is finished");
  facts_.group = Group::kFinishing;
  facts_.in_order = false;
  facts_.stop_code = 0;
  facts_.stop_reason = "finished";
  news_.tell_held(applied_, true);
  to_hosts_(order::Finish{});
}

void RunKeeper::on(const event::RecordsFailed& failed) {
  stop_now(exit_code(failed.error.kind), failed.error.message);
}

void RunKeeper::end_if_empty() {
  if (waiting_restart_ || workers_.any([](const Worker& worker) { return !worker.is_ghost(); }))
    return;
  if (facts_.group == Group::kRestarting) return begin_group();
  const bool loops_done = !facts_.elastic && facts_.group == Group::kRunning;
  if (facts_.group != Group::kStopping && facts_.group != Group::kFinishing && !loops_done) return;
  record(incidents_.close_all(1), "the run ends");
  facts_.group = Group::kStopped;
  turn_.act(action::Stop{facts_.stop_code},
            loops_done ? "all workers have exited 0" : facts_.stop_reason);
}

}  // namespace lockstep::coord

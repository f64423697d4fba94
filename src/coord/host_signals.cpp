// What a signal to a worker means: that the run or this worker is to end. Handlers of workers that
// take part in transactions note it (worker/stop_signals.h); others die of it.
#include "base/signal_name.h"
#include "coord/host_keeper.h"

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

void HostKeeper::note_signals() {
  if (!run_.elastic || !workers_.any(has_unanswered))
    signal_at_.reset();
  else if (!signal_at_)
    signal_at_ = turn_.now;
}

int HostKeeper::signal_to_all() const {
  int signal = 0;
  for (const auto& [uid, worker] : workers_) {
    if (!counts(worker)) continue;
    if (worker.seen.signal == 0) return 0;
    if (signal == 0) signal = worker.seen.signal;
  }
  return signal;
}

void HostKeeper::obey(const order::LetGo&) {
  for (auto& [uid, worker] : workers_)
    if (has_unanswered(worker)) let_go(worker);
}

// Whoever sent it wants this worker gone: a death from outside, but one that loses nothing.
void HostKeeper::let_go(Worker& worker) {
  worker.signal_answered = true;
  if (!worker.holds_state())
    return evict(worker, Cause::kFromOutside, signal_name(worker.seen.signal));
  worker.stage = Stage::kLeaving;
  worker.may_leave = true;
  say(report::LetGo{worker, board_.rank_of(worker), outlook(worker, Cause::kFromOutside)});
}

}  // namespace lockstep::coord

// The times that a host's workers are given.
#include <csignal>

#include "base/seconds.h"
#include "coord/host_keeper.h"
#include "coord/timers.h"

namespace lockstep::coord {

// Calls visit(time, what to do then) for every timer that runs.
template <class Visit>
void HostKeeper::each_timer_of(Worker& worker, Visit visit) {
  const Timing& timing = config_.timing;
  const bool starting = run_.group == Group::kStarting, running = run_.group == Group::kRunning;
  if (const auto at = spawner_.fork_deadline(worker))
    visit(*at, [this] { spawner_.give_zygote_up(); });
  if (worker.stage == Stage::kForked)
    visit(worker.since + timing.hello, [this, &worker] {
      evict(worker, Cause::kFailedSpawn, "no hello within " + seconds(config_.timing.hello));
    });
  // Once ready it waits for the others alone, through an evaluation of whatever length.
  if (running && worker.stage >= Stage::kForked && worker.stage < Stage::kReady)
    visit(worker.since + timing.join, [this, &worker] {
      evict(worker, Cause::kFailedSpawn, "not ready within " + seconds(config_.timing.join));
    });
  if (worker.closed_at && !worker.left && run_.elastic && (starting || run_.is_training()))
    visit(*worker.closed_at + timing.close_grace, [this, &worker] {
      evict(worker, Cause::kOwnDoing,
            "closed its connection to the launcher and did not end within " +
                seconds(config_.timing.close_grace));
    });
  const bool awaited = run_.group != Group::kRestarting && !(config_.attached && starting);
  if (!worker.stopped_at || !awaited) return;
  const bool last = run_.elastic && worker.holds_state() && run_.restarts >= config_.max_restarts &&
                    !goes_on_without(&worker);
  if (last && worker.stop_told) return;
  visit(*worker.stopped_at + timing.stop_grace, [this, &worker, last] {
    const std::string stopped = "stopped for " + seconds(turn_.now - *worker.stopped_at);
    if (!last) return evict(worker, Cause::kFromOutside, stopped);
    worker.stop_told = true;
    turn_.print(action::Severity::kWarning,
                board_.name(worker) + " is " + stopped +
                    ", and nobody else could go on: the run waits for its SIGCONT");
  });
}

template <class Visit>
void HostKeeper::each_timer(Visit visit) {
  if (run_.group == Group::kStopped) return;
  for (auto& [uid, worker] : workers_)
    if (!worker.dismissed && !worker.evicted) each_timer_of(worker, visit);
  if (const auto at = spawner_.zygote_pause(); at && !run_.is_ending())
    visit(*at, [this] { spawner_.end_zygote_pause(); });
  if (const auto at = spawner_.pause(); at && run_.group == Group::kRunning)
    visit(*at, [this] { spawner_.end_pause(); });
  if (run_.group == Group::kRunning && signal_at_)
    visit(*signal_at_ + config_.timing.signal_wait, [this] {
      signal_at_.reset();
      say(report::Signalled{});
    });
  if (orderly_until_)
    visit(*orderly_until_, [this] {
      orderly_until_.reset();
      say(report::OutOfTime{});
      if (!config_.attached)
        return kill_late(config_.timing.orderly, "they were to leave in order");
      term_until_ = turn_.now + config_.timing.kill_grace;
      kill_all(SIGTERM, "it has not left in time");
    });
  if (term_until_)
    visit(*term_until_, [this] {
      term_until_.reset();
      kill_late(config_.timing.kill_grace, "they were told to end");
    });
  if (run_.group == Group::kStopping && tell_stop_wait_at_)
    visit(*tell_stop_wait_at_, [this] { tell_stop_wait(); });
}

bool HostKeeper::fire_timer() {
  return fire_one(turn_.now, [this](const auto& visit) { each_timer(visit); });
}

std::uint64_t HostKeeper::next_deadline(std::uint64_t until) {
  return earliest(until, [this](const auto& visit) { each_timer(visit); });
}

void HostKeeper::watch_standstills() {
  if (run_.is_training() || run_.group == Group::kFinishing) {
    standstills_.tell();
    if (const auto hung = standstills_.hung())
      evict(workers_.at(hung->worker), Cause::kHung, hung->why);
  }
  standstills_.tell_slow_start();
}

// Every time that a worker is given.
void HostKeeper::forget_pause(std::uint64_t gap) {
  standstills_.skip_pause(gap);
  for (auto& [uid, worker] : workers_) {
    worker.since += gap;
    for (auto* at : {&worker.going_at, &worker.stopped_at, &worker.closed_at})
      if (*at) **at += gap;
  }
  for (auto* at : {&signal_at_, &orderly_until_, &term_until_, &tell_stop_wait_at_})
    if (*at) **at += gap;
}

}  // namespace lockstep::coord

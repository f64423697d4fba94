// How a host's workers are started: seats, slots, and the process that forks them.
#include <algorithm>
#include <csignal>

#include "coord/host_keeper.h"

namespace lockstep::coord {

// Until its process is gone, so that no two have one local rank and its logs; but for a while only,
// as a process that does not end must not keep others from joining.
bool HostKeeper::holds_seat(const Worker& worker) const {
  return !worker.going_at || turn_.now < *worker.going_at + config_.timing.close_grace;
}

// None: one becomes free as soon as those who leave are gone.
std::optional<int> HostKeeper::free_seat(int world) const {
  for (int seat = 0; seat < world; ++seat)
    if (!workers_.any(
            [&](const Worker& worker) { return worker.seat == seat && holds_seat(worker); }))
      return seat;
  return std::nullopt;
}

void HostKeeper::spawn_missing() {
  if ((config_.zygote && !zygote_.ready) || !tries_.pause.over(turn_.now)) return;
  const auto world = static_cast<int>(std::max(run_.target, config_.workers));
  while (workers_.active() < run_.target) {
    const auto seat = free_seat(world);
    if (!seat) return;
    const auto slot = slots_.take();
    if (!slot) return;  // one becomes free when the interrupted transaction is committed
    Worker worker;
    worker.uid = WorkerUid(++last_uid_);
    worker.slot = *slot;
    worker.seat = *seat;
    worker.since = turn_.now;
    worker.newcomer = run_.group == Group::kRunning;
    turn_.act(action::Spawn{worker.uid, worker.slot, Rank(*seat), LocalRank(*seat), world,
                            run_.restarts, config_.max_restarts, worker.newcomer},
              worker.newcomer ? "the group has fewer workers than wanted" : "the group starts");
    workers_.add(worker);
  }
}

// The zygote that was to fork them is gone, and nobody knows how far it got: they are asked for
// again under fresh uids.
void HostKeeper::drop_unforked(const char* why) {
  workers_.remove_if([&](const Worker& worker) {
    if (worker.stage != Stage::kSpawning) return false;
    slots_.retire(worker.slot);
    turn_.act(action::Kill{worker.uid, SIGKILL}, why);
    return true;
  });
}

void HostKeeper::on(const event::ZygoteReady&) { zygote_.ready = true; }

void HostKeeper::on(const event::ZygoteLost& lost) {
  const bool never_served = last_uid_ == 0;
  zygote_.ready = false;
  if (run_.is_ending()) return;
  drop_unforked("its zygote is gone");
  const bool started = lost.not_started.empty();
  const std::string text =
      started ? "the program ended with " + describe(lost.status) + " before lockstep::init()"
              : lost.not_started;
  if (never_served && lost.status.signal == 0) {  // --help, a wrong option, one without init()
    if (lost.status.code == 0 && !config_.asked_for_help)
      turn_.print(action::Severity::kWarning, text);
    return to_run_(report::MustEnd{lost.status.code, text, started && is_wrong_input(lost.status)});
  }
  if (++zygote_.losses == 1)
    return turn_.act(action::RestartZygote{}, "the zygote ended with " + describe(lost.status));
  if (!zygote_.given_up()) return zygote_.pause.begin(turn_.now);
  to_run_(report::NoMoreWorkers{text + ", " + std::to_string(zygote_.losses) + " times in a row",
                                is_from_outside(lost.status)});
}

void HostKeeper::obey(const order::Begin&) {
  workers_.clear();  // a late fork of the old zygote comes with the old board, and is killed at
                     // its first word
  board_ = {};
  proposed_.clear();
  tries_ = {};
  slots_ = {};
  donor_ = Donor(config_.timing.heal_retry);
  standstills_.begin_group();
  signal_at_.reset();
  turn_.act(action::RestartGroup{run_.restarts}, "all workers of the old group are gone");
  if (!config_.zygote || !zygote_.given_up()) return;
  zygote_ = {};  // given up, and counted anew
  turn_.act(action::RestartZygote{}, "the group starts again");
}

}  // namespace lockstep::coord

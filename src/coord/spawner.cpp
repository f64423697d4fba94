#include "coord/spawner.h"

#include <csignal>

#include "base/seconds.h"

namespace lockstep::coord {
namespace {

int seats_of(const HostFacts& host) { return static_cast<int>(std::max(host.target, host.asked)); }

}  // namespace

void Spawner::start() {
  if (config_.zygote) turn_.act(action::RestartZygote{}, "first start");
}

void Spawner::start_again() {
  tries_ = {};
  slots_ = {};
  turn_.act(action::RestartGroup{run_.restarts}, "all workers of the old group are gone");
  if (!config_.zygote || zygote_.losses < kMostZygotes) return;
  zygote_ = {};  // given up, and counted anew
  turn_.act(action::RestartZygote{}, "the group starts again");
}

// Until its process is gone, so that no two have one local rank and its logs; but for a while only,
// as a process that does not end must not keep others from joining.
bool Spawner::holds_seat(const Worker& worker) const {
  return !worker.going_at || turn_.now < *worker.going_at + config_.timing.close_grace;
}

// None: one becomes free as soon as those who leave are gone.
std::optional<int> Spawner::free_seat(int seats) const {
  for (int seat = 0; seat < seats; ++seat)
    if (!workers_.any(
            [&](const Worker& worker) { return worker.seat == seat && holds_seat(worker); }))
      return seat;
  return std::nullopt;
}

void Spawner::start_missing() {
  if ((config_.zygote && !zygote_.ready) || !tries_.pause.over(turn_.now)) return;
  const HostFacts& own = run_.hosts[stay_.host];
  int first = 0, world = 0;  // the rank of its first seat; of all
  for (const HostFacts& host : run_.hosts) {
    if (&host == &own) first = world;
    world += seats_of(host);
  }
  while (workers_.active() < own.target) {
    const auto seat = free_seat(seats_of(own));
    if (!seat) return;
    const auto slot = slots_.take();
    if (!slot) return;  // one becomes free when the interrupted transaction is committed
    Worker worker;
    worker.uid = uid_of(stay_, ++last_number_);
    worker.slot = *slot;
    worker.seat = *seat;
    worker.since = turn_.now;
    worker.newcomer = run_.group == Group::kRunning;
    turn_.act(action::Spawn{worker.uid, worker.slot, Rank(first + *seat), LocalRank(*seat), world,
                            run_.restarts, config_.max_restarts, worker.newcomer},
              worker.newcomer ? "the group has fewer workers than wanted" : "the group starts");
    workers_.add(worker);
  }
}

// The zygote that was to fork them is gone, and nobody knows how far it got: they are asked for
// again under fresh uids.
void Spawner::drop_unforked(const char* why) {
  workers_.remove_if([&](const Worker& worker) {
    if (worker.stage != Stage::kSpawning) return false;
    slots_.retire(worker.slot);
    turn_.act(action::Kill{worker.uid, SIGKILL}, why);
    return true;
  });
}

std::optional<Report> Spawner::on(const event::ZygoteLost& lost) {
  const bool never_served = last_number_ == 0;
  zygote_.ready = false;
  if (run_.is_ending()) return std::nullopt;
  drop_unforked("its zygote is gone");
  const bool started = lost.not_started.empty();
  const std::string text =
      started ? "the program ended with " + describe(lost.status) + " before lockstep::init()"
              : lost.not_started;
  if (never_served && lost.status.signal == 0) {  // --help, a wrong option, one without init()
    if (lost.status.code == 0 && !config_.asked_for_help)
      turn_.print(action::Severity::kWarning, text);
    return report::MustEnd{lost.status.code, text, started && is_wrong_input(lost.status)};
  }
  if (++zygote_.losses >= kMostZygotes)
    return report::NoMoreWorkers{text + ", " + std::to_string(zygote_.losses) + " times in a row",
                                 is_from_outside(lost.status)};
  if (zygote_.losses == 1)
    turn_.act(action::RestartZygote{}, "the zygote ended with " + describe(lost.status));
  else
    zygote_.pause.begin(turn_.now);
  return std::nullopt;
}

// While none is ready, the next one is still to be started, or given up.
void Spawner::note_hello() {
  if (!zygote_.ready) return;
  zygote_.losses = 0;
  zygote_.pause = {};
}

void Spawner::note_in_vain() {
  tries_.pause.begin(turn_.now);
  ++tries_.failed;
}

void Spawner::note_gone(const Worker& worker) {
  worker.proposed ? slots_.retire(worker.slot) : slots_.give_back(worker.slot);
}

std::optional<std::uint64_t> Spawner::fork_deadline(const Worker& worker) const {
  if (worker.stage != Stage::kSpawning || !config_.zygote || !zygote_.ready) return std::nullopt;
  return worker.since + config_.timing.fork;
}

void Spawner::give_zygote_up() {
  zygote_.ready = false;
  drop_unforked("its zygote does not answer");
  turn_.act(action::RestartZygote{},
            "no answer to a fork request for " + seconds(config_.timing.fork));
}

void Spawner::end_zygote_pause() {
  zygote_.pause.end();
  turn_.act(action::RestartZygote{}, "the zygote ended, a while ago");
}

}  // namespace lockstep::coord

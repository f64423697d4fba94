#include "simulation/signal_faults.h"

#include <algorithm>
#include <csignal>

namespace lockstep::simulation {

SignalFaults::SignalFaults(std::uint64_t seed, Scene& scene)
    : scene_(scene), any_(seed % 8 == 7), alone_(seed % 16 == 7), random_(~seed) {}

void SignalFaults::shorten_the_wait() {
  if (any_) scene_.options.config.timing.signal_wait = random_.between(5, 30) * kMillisecond;
}

void SignalFaults::plan() {
  if (!any_) return;
  static constexpr int kNumbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
  number_ = kNumbers[random_.between(0, 3)];
  whom_ = static_cast<Whom>(random_.between(0, 4));
  const std::uint64_t span = 60 * kMillisecond + scene_.plan.transactions *
                                                     scene_.plan.virtual_workers *
                                                     scene_.host.step_time;
  scene_.clock.after(random_.between(0, span / 2), [this] { send(); });
}

void SignalFaults::send() {
  if (scene_.agent->exit_code()) return;
  ++scene_.outcome.faults;
  scene_.last_fault = sent_at_ = scene_.clock.now();
  const auto alive = scene_.agent->alive();
  all_were_members_ = scene_.agent->coordinator().status().state == "running" &&
                      std::ranges::none_of(alive, [](auto* worker) { return worker->boots(); });
  if (whom_ == Whom::kOne) {
    one_of_ = alive.size();
    if (!alive.empty()) alive[random_.between(0, alive.size() - 1)]->signal(number_);
    return;
  }
  if (whom_ != Whom::kLauncher)
    for (SimWorker* worker : alive)
      scene_.clock.after(random_.between(0, 2 * kMillisecond),
                         [worker, number = number_] { worker->signal(number); });
  if (whom_ == Whom::kWorkers) return;
  const std::uint64_t least = whom_ == Whom::kWorkersFirst ? 2 * kMillisecond : 0;
  scene_.clock.after(least + random_.between(0, 2 * kMillisecond), [this] {
    if (scene_.again) return;
    scene_.signalled = true;
    scene_.agent->signal(number_);
  });
}

void SignalFaults::check() {
  const int code = *scene_.agent->exit_code();
  require(code == 0 || code == 128 + number_, "a signal makes exit code " + std::to_string(code));
  if (whom_ == Whom::kOne && one_of_ > 1) require(code == 0, "one worker's signal ends the run");
  if (code == 0) {
    const std::uint64_t step =
        scene_.plan.virtual_workers * (2 * scene_.host.step_time + scene_.host.most_preempted) +
        10 * kMillisecond;
    const std::uint64_t answer =
        sent_at_ + scene_.options.config.timing.signal_wait + scene_.options.tick + 4 * step;
    require(whom_ != Whom::kWorkers || !all_were_members_ || scene_.host.last_commit_at <= answer,
            "the run goes on with a signal to all its workers");
    scene_.outcome.let_go += scene_.agent->incidents().empty() ? 0 : 1;
    return;
  }
  const std::uint64_t committed = scene_.agent->coordinator().status().committed;
  require(scene_.agent->finished() || scene_.host.checkpoint.txn == committed,
          "the step under way is lost");
}

}  // namespace lockstep::simulation

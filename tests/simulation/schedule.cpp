#include "simulation/schedule.h"

#include <csignal>

#include "simulation/scene.h"
#include "simulation/signal_faults.h"
#include "simulation/standstills.h"
#include "simulation/time_limit_faults.h"

namespace lockstep::simulation {

namespace {

// Every single fault but a hang leads to a commit or to the run's end within this: the grace of a
// stop, a restart; several faults may add up.
constexpr std::uint64_t kReaction = 45 * kSecond;
constexpr std::uint64_t kMostMissed = 12;  // tables that a ready newcomer may miss
// And how long at most, if that is more: the agent may look as seldom as once in 900 ms.
constexpr std::uint64_t kMostWaited = 1400 * kMillisecond;
constexpr std::uint64_t kMostEvents = 400'000;

class Schedule {
 public:
  Schedule(std::uint64_t seed, const BoardSizes& sizes)
      : attached_(seed % 8 == 1), scene_(seed), signals_(seed, scene_) {
    host_.step_time = random_.between(500 * kMicrosecond, 8 * kMillisecond);
    if (random_.chance(0.5)) {
      host_.preempted = 0.02;
      host_.most_preempted = random_.between(2, 20) * host_.step_time;
    }
    options_ = make_options(sizes);
    patient_ = seed % 8 == 3;
    options_.idles = patient_;
    if (seed % 3 == 0 && !signals_.alone())
      strict_ = options_.config.timing.strict_hang = (1 + seed % 20) * kSecond;
    if (seed % 7 < 2 && !signals_.alone()) standstills_.plan(seed);
    host_.stops_wait = sizes.stops_wait;
    host_.planted = sizes.planted;
    if (seed % 4 == 0) time_limit_.plan(seed);
    signals_.shorten_the_wait();
    agent_ = std::make_unique<SimAgent>(host_, options_);
  }

  Outcome run() {
    try {
      if (!signals_.alone()) plan_faults();
      if (patient_) plan_long_waits();
      signals_.plan();
      go_through();
      check_end();
      if (signals_.alone() && *agent_->exit_code() != 0 && !agent_->finished()) go_on_again();
    } catch (const Violation& violation) {
      outcome_.violation = violation.what();
      outcome_.journal = agent_->report();
    }
    outcome_.attached = attached_ ? 1 : 0;
    if (!scene_.again) agent_->sum_up(outcome_);
    outcome_.overtaken = host_.overtaken;
    outcome_.out_of_time = host_.stopped > 0 && host_.stop_file != 0 ? 1 : 0;
    outcome_.out_of_time_again = outcome_.out_of_time != 0 && agent_->repeated() ? 1 : 0;
    return outcome_;
  }

 private:
  void go_through() {
    agent_->start();
    while (!agent_->exit_code()) {
      require(clock_.step(), "nothing is left to happen, and the run has not ended");
      require(++outcome_.events < kMostEvents, "the run does not end");
      check_liveness();
    }
  }

  // The same command once more.
  void go_on_again() {
    agent_->sum_up(outcome_);
    scene_.again = true;
    before_ = std::move(agent_);  // the clock still holds it
    agent_ = std::make_unique<SimAgent>(host_, options_);
    go_through();
    require(*agent_->exit_code() == 0, "the same command does not go on");
    ++outcome_.signalled;
  }

  AgentOptions make_options(const BoardSizes& sizes) {
    AgentOptions options;
    options.sizes = sizes;
    options.config.workers =
        static_cast<std::uint32_t>(random_.between(1, std::min(plan_.virtual_workers, 5U)));
    options.config.max_restarts = static_cast<int>(random_.between(0, 4));
    static constexpr int kReplacements[] = {0, 1, 3, 10};
    options.config.max_replacements = kReplacements[random_.between(0, 3)];
    options.config.give_back_after = random_.chance(0.5) ? 1'000'000 : random_.between(1, 10);
    options.slowest_message = random_.chance(0.3) ? 60 * kMillisecond : kMillisecond;
    options.tick = random_.between(kMillisecond, 30 * kMillisecond);
    if (attached_) {
      options.start_by_hand();
      slack_ = 310 * kSecond;  // one that is stopped before the first step is waited for
    }
    return options;
  }

  // How long it may take until all who hang are known to: each in turn, and each eviction doubles
  // the limit, as what has ended by itself makes it ten times as long.
  std::uint64_t hang_slack() const {
    const std::uint64_t own = host_.own_code_txn ? host_.own_code + host_.own_code_more : 0;
    std::uint64_t each = 11 * std::max(scene_.longest_slow, own) + coord::HangWatch::kLeast,
                  all = 0;
    for (std::uint64_t i = 0; i < hangs_ + outcome_.slowed; ++i, each *= 2)
      all += strict_ != 0 ? strict_ + kSecond : each;
    return all;
  }

  void plan_faults() {
    const std::uint64_t count = random_.between(0, 7);
    const std::uint64_t span =
        150 * kMillisecond + plan_.transactions * plan_.virtual_workers * host_.step_time;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t at = random_.between(0, span);
      clock_.after(at, [this] { fault(); });
      // Double faults: another one soon after.
      if (random_.chance(0.3))
        clock_.after(at + random_.between(0, 10 * kMillisecond), [this] { fault(); });
    }
  }

  // What takes minutes: in some schedules only.
  void plan_long_waits() {
    if (random_.chance(0.5)) {
      host_.own_code_txn = random_.between(0, plan_.transactions);
      host_.own_code = random_.between(kSecond, 200 * kSecond);
      host_.own_code_more = random_.between(0, 55 * kSecond);
      slack_ += 260 * kSecond;
    }
    const std::uint64_t span =
        150 * kMillisecond + plan_.transactions * plan_.virtual_workers * host_.step_time;
    for (std::uint64_t i = random_.between(0, 2); i > 0; --i)
      clock_.after(random_.between(0, span), [this] { long_fault(); });
  }

  void long_fault() {
    if (agent_->exit_code()) return;
    ++outcome_.faults;
    last_fault_ = clock_.now();
    SimWorker* worker = scene_.victim();
    if (random_.chance(0.3)) return refuse_spawns();
    if (random_.chance(0.2)) return kill_zygotes(static_cast<int>(random_.between(2, 12)));
    if (worker == nullptr) return;
    if (random_.chance(0.4)) return worker->hang_up();
    ++hangs_;
    worker->hang_between();
  }

  // As many in a row, each as soon as it is there.
  void kill_zygotes(int count) {
    last_fault_ = clock_.now();
    stormy_ = true;
    agent_->kill_zygote();
    if (count > 1 && !agent_->exit_code())
      clock_.after(120 * kMillisecond, [this, count] { kill_zygotes(count - 1); });
    else
      scene_.kill_everybody();
  }

  void refuse_spawns() {
    slack_ += 15 * kSecond;
    agent_->refuse_spawns(static_cast<int>(random_.between(1, 14)));
    if (SimWorker* worker = scene_.victim()) worker->end({-1, SIGKILL});
  }

  void fault() {
    if (agent_->exit_code()) return;
    ++outcome_.faults;
    last_fault_ = clock_.now();
    const std::uint64_t kind = random_.between(0, 19);
    SimWorker* worker = scene_.victim();
    if (kind == 0) return agent_->kill_zygote();
    if (kind <= 3)
      return random_.chance(0.5) ? scale(plan_.virtual_workers) : stop_leaver_soon(1000);
    if (kind == 4 && random_.chance(0.3)) {
      signalled_ = true;
      return agent_->signal(SIGTERM);
    }
    if (worker == nullptr) return;
    if (kind == 5) return pause(worker, random_.between(10 * kMillisecond, 3 * kSecond));
    if (kind == 6)
      return random_.chance(0.5) ? pause(worker, 400 * kSecond) : orphan_newcomer_soon(2000);
    if (kind == 7) {
      ++hangs_;
      return worker->hang();
    }
    if (kind == 8) return worker->end({random_.chance(0.5) ? 0 : 7, 0});
    if (kind == 9) return worker->end({-1, SIGSEGV});
    if (kind == 10) return scene_.kill_everybody();
    if (kind <= 12) return kill_joiner_soon(30);
    if (kind == 13) return random_.chance(0.5) ? swing() : orphan_newcomer_soon(2000);
    worker->end({-1, SIGKILL});
  }

  void scale(std::uint64_t most) {
    if (!agent_->exit_code())
      agent_->scale(
          static_cast<std::uint32_t>(random_.between(1, std::max(most, std::uint64_t{1}))));
  }

  // Stops the newest worker that has done its part of a step and waits for others, and scales: if
  // it has to leave, the others get far ahead of it, first through an evaluation without it.
  void stop_leaver_soon(int tries) {
    last_fault_ = clock_.now();
    const auto alive = agent_->alive();
    const auto found =
        std::find_if(alive.rbegin(), alive.rend(), [](auto* worker) { return worker->waits(); });
    if (found != alive.rend()) {
      pause(*found, random_.between(10 * kMillisecond, 900 * kMillisecond));
      clock_.after(random_.between(0, host_.step_time),
                   [this, most = alive.size() - 1] { scale(most); });
      if (random_.chance(0.5))
        clock_.after(random_.between(0, 500 * kMillisecond), [this] { kill_oldest(); });
    } else if (tries > 0 && !agent_->exit_code()) {
      clock_.after(kMillisecond / 10, [this, tries] { stop_leaver_soon(tries - 1); });
    }
  }

  void kill_oldest() {
    last_fault_ = clock_.now();
    const auto alive = agent_->alive();
    if (!alive.empty()) alive.front()->end({-1, SIGKILL});
  }

  // Few are wanted, then many again, while the oldest worker is stopped and everybody waits for it.
  void swing() {
    pause(agent_->alive().front(), random_.between(500 * kMillisecond, 2 * kSecond));
    agent_->scale(static_cast<std::uint32_t>(random_.between(1, 2)));
    clock_.after(random_.between(0, 900 * kMillisecond), [this] { scale(plan_.virtual_workers); });
  }

  void pause(SimWorker* worker, std::uint64_t time) {
    worker->stop();
    tell_agent(coord::event::Stopped{worker->uid()});
    clock_.after(time, [this, worker] { go_on(worker); });
  }

  void go_on(SimWorker* worker) {
    if (!worker->alive()) return;
    worker->go_on();
    tell_agent(coord::event::Continued{worker->uid()});
  }

  // Nobody runs who holds the state: the stopped are waited for, for as long as a person takes.
  bool continue_the_last() {
    const auto stopped = agent_->stopped_alone();
    for (SimWorker* worker : stopped) go_on(worker);
    if (!stopped.empty()) last_fault_ = clock_.now();
    return !stopped.empty();
  }

  void tell_agent(coord::Event event) {
    clock_.after(100 * kMicrosecond, [this, event] { agent_->tell(event); });
  }

  // Looks for a newcomer that heals, for a while.
  void kill_joiner_soon(int tries) {
    last_fault_ = clock_.now();
    for (SimWorker* worker : agent_->alive()) {
      if (!worker->healing()) continue;
      ++outcome_.joiners_killed;
      return worker->end({-1, SIGKILL});
    }
    if (tries > 0 && !agent_->exit_code())
      clock_.after(kMillisecond, [this, tries] { kill_joiner_soon(tries - 1); });
  }

  // Kills all members of the current table as soon as the next one lists somebody else.
  void orphan_newcomer_soon(int tries) {
    last_fault_ = clock_.now();
    const auto members = agent_->members_before_newcomer();
    for (SimWorker* worker : members) worker->end({-1, SIGKILL});
    outcome_.orphaned += members.empty() ? 0 : 1;
    if (members.empty() && tries > 0 && !agent_->exit_code())
      clock_.after(kMillisecond / 20, [this, tries] { orphan_newcomer_soon(tries - 1); });
  }

  // When something last happened to the group: a fault, or a worker's end that followed from one
  // (a hang's comes late).
  std::uint64_t last_event() {
    if (agent_->ended() != ends_) last_end_ = clock_.now();
    ends_ = agent_->ended();
    return std::max(last_fault_, last_end_);
  }

  // A newcomer that is ready gets into a table within a few transactions, unless something else
  // happens.
  void check_newcomers() {
    for (SimWorker* worker : agent_->alive()) {
      if (!worker->healing() || worker->stopped()) continue;
      const Wait now{host_.commits, clock_.now(), std::max(last_event(), last_quiet_)};
      auto [it, fresh] = waiting_.try_emplace(worker->uid(), now);
      Wait& since = it->second;
      if (since.last_event != now.last_event) since = now;
      require(now.commits <= since.commits + kMostMissed * plan_.virtual_workers ||
                  now.time <= since.time + kMostWaited,
              "a newcomer that is ready does not get in");
    }
  }

  void check_liveness() {
    // Where nothing is committed the agent looks seldom, and newcomers wait like all.
    if (clock_.now() > host_.last_commit_at + kSecond) last_quiet_ = clock_.now();
    if (outcome_.events % 64 == 0) check_newcomers();
    const std::uint64_t since = std::max(last_event(), host_.last_commit_at);
    if (since == 0) return;
    if (clock_.now() <= since + kReaction + slack_) return;
    if (nobody_waits()) {
      last_fault_ = clock_.now();
      signalled_ = true;  // nobody but the user can tell that from code of their own
      return agent_->signal(SIGTERM);
    }
    if (clock_.now() <= since + kReaction + slack_ + hang_slack()) return;
    if (continue_the_last()) return;
    require(false, "no commit and no end in time after the last fault");
  }

  // All that hold the state hang.
  bool nobody_waits() const {
    const auto alive = agent_->alive();
    return !signalled_ && std::all_of(alive.begin(), alive.end(), [this](auto* worker) {
      const bool left_alone = strict_ == 0 || worker->in_exchange();
      return (worker->hung() && left_alone) || worker->boots() || worker->healing();
    });
  }

  void check_end() {
    const int code = *agent_->exit_code();
    if (signals_.alone()) signals_.check();
    const coord::RunStatus status = agent_->coordinator().status();
    const auto charged =
        static_cast<std::size_t>(status.max_replacements - status.replacements_left);
    require(charged <= agent_->incidents().size() + agent_->failed_starts(),
            "more replacements charged than incidents and tries to start somebody");
    // After the end of the run a worker's own error is the program's, and nobody's work is lost.
    const bool own = agent_->finished() && code != 1 && code < 75;
    if (code == 0 || own) {
      require(host_.last_commit_at != 0, "the run ended well without a commit");
      require(host_.stop_file == 0 || host_.stopped > 0, "a recorded stop had no effect");
      ++outcome_.finished;
      return;
    }
    if (signalled_ && code == 128 + SIGTERM) return;
    if (signals_.explains(code)) return;
    if (attached_ && code == 69 && agent_->lost_at_start()) return;
    require(code == 1 || code == 75, "exit code " + std::to_string(code));
    require(agent_->lost_everybody() || agent_->lost_at_start() || stormy_,
            "the run stopped although somebody could go on");
  }

  const bool attached_;  // its workers are started by hand
  Scene scene_;
  Random& random_ = scene_.random;
  Clock& clock_ = scene_.clock;
  const Plan& plan_ = scene_.plan;
  Host& host_ = scene_.host;
  AgentOptions& options_ = scene_.options;
  std::unique_ptr<SimAgent>& agent_ = scene_.agent;
  Outcome& outcome_ = scene_.outcome;
  std::uint64_t &last_fault_ = scene_.last_fault, &slack_ = scene_.slack;
  bool& signalled_ = scene_.signalled;
  SignalFaults signals_;
  Standstills standstills_{scene_};
  TimeLimitFaults time_limit_{scene_};
  std::unique_ptr<SimAgent> before_;  // of the same command's first run
  std::uint64_t last_end_ = 0, hangs_ = 0, last_quiet_ = 0;
  std::uint64_t strict_ = 0;  // --hang-timeout
  std::size_t ends_ = 0;      // of workers, so far
  bool stormy_ = false;       // all zygotes may have been killed before any worker was there
  bool patient_ = false;      // has faults that take minutes
  struct Wait {
    std::uint64_t commits, time, last_event;
  };
  std::map<WorkerUid, Wait> waiting_;  // newcomers, since they were first seen
};

}  // namespace

Outcome run_schedule(std::uint64_t seed, const BoardSizes& sizes) {
  return Schedule(seed, sizes).run();
}

}  // namespace lockstep::simulation

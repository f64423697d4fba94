#include "simulation/schedule.h"

#include <csignal>

#include "simulation/sim_agent.h"

namespace lockstep::simulation {
namespace {

// Every single fault but a hang leads to a commit or to the run's end within this: the grace of a
// stop, a restart; several faults may add up.
constexpr std::uint64_t kReaction = 45 * kSecond;
constexpr std::uint64_t kLongestSlow = 900 * kSecond;
constexpr std::uint64_t kMostMissed = 12;  // tables that a ready newcomer may miss
// And how long at most, if that is more: the agent may look as seldom as once in 900 ms.
constexpr std::uint64_t kMostWaited = 1400 * kMillisecond;
constexpr std::uint64_t kMostEvents = 400'000;

class Schedule {
 public:
  Schedule(std::uint64_t seed, const BoardSizes& sizes)
      : random_(seed),
        plan_(make_plan(seed)),
        reference_(plan_.reference()),
        host_{clock_, random_, plan_, reference_},
        attached_(seed % 8 == 1),
        signals_(seed % 8 == 7),
        quiet_(seed % 16 == 7),
        own_(~seed) {
    host_.step_time = random_.between(500 * kMicrosecond, 8 * kMillisecond);
    if (random_.chance(0.5)) {
      host_.preempted = 0.02;
      host_.most_preempted = random_.between(2, 20) * host_.step_time;
    }
    options_ = make_options(sizes);
    patient_ = seed % 8 == 3;
    options_.idles = patient_;
    if (seed % 3 == 0 && !quiet_)
      strict_ = options_.config.timing.strict_hang = (1 + seed % 20) * kSecond;
    if (seed % 7 < 2 && !quiet_) plan_standstills(seed);
    host_.stops_wait = sizes.stops_wait;
    if (seed % 4 == 0) limit_time(seed);
    if (signals_) options_.config.timing.signal_wait = own_.between(5, 30) * kMillisecond;
    agent_ = std::make_unique<SimAgent>(host_, options_);
  }

  Outcome run() {
    try {
      if (!quiet_) plan_faults();
      if (patient_) plan_long_waits();
      if (signals_) plan_signals();
      go_through();
      check_end();
      if (quiet_ && *agent_->exit_code() != 0 && !agent_->finished()) go_on_again();
    } catch (const Violation& violation) {
      outcome_.violation = violation.what();
      outcome_.journal = agent_->report();
    }
    outcome_.attached = attached_ ? 1 : 0;
    if (before_ == nullptr) agent_->sum_up(outcome_);
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
    before_ = std::move(agent_);  // the clock still holds it
    agent_ = std::make_unique<SimAgent>(host_, options_);
    go_through();
    require(*agent_->exit_code() == 0, "the same command does not go on");
    ++outcome_.signalled;
  }

  Plan make_plan(std::uint64_t seed) {
    Plan plan;
    plan.virtual_workers = static_cast<std::uint32_t>(random_.between(1, 8));
    plan.transactions = random_.between(5, 30);
    plan.checkpoint_every = random_.between(2, 8);
    plan.epoch = random_.chance(0.6) ? random_.between(2, 5) : 0;
    if (plan.epoch > 2 && seed % 5 == 0) plan.evaluations = 2;
    plan.batches = static_cast<std::uint32_t>(random_.between(1, random_.chance(0.5) ? 1 : 6));
    return plan;
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

  // To the launcher, to one worker, to all of them, to all and the launcher in either order.
  void plan_signals() {
    static constexpr int kNumbers[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
    number_ = kNumbers[own_.between(0, 3)];
    whom_ = static_cast<Whom>(own_.between(0, 4));
    const std::uint64_t span =
        60 * kMillisecond + plan_.transactions * plan_.virtual_workers * host_.step_time;
    clock_.after(own_.between(0, span / 2), [this] { send_signals(); });
  }

  void send_signals() {
    if (agent_->exit_code()) return;
    ++outcome_.faults;
    last_fault_ = signals_at_ = clock_.now();
    const auto alive = agent_->alive();
    const auto boots = [](auto* worker) { return worker->boots(); };
    from_the_start_ =
        agent_->coordinator().status().state == "running" && std::ranges::none_of(alive, boots);
    if (whom_ == Whom::kOne) {
      one_of_ = alive.size();
      if (!alive.empty()) alive[own_.between(0, alive.size() - 1)]->signal(number_);
      return;
    }
    if (whom_ != Whom::kLauncher)
      for (SimWorker* worker : alive)
        clock_.after(own_.between(0, 2 * kMillisecond),
                     [worker, number = number_] { worker->signal(number); });
    if (whom_ == Whom::kWorkers) return;
    const std::uint64_t least = whom_ == Whom::kWorkersFirst ? 2 * kMillisecond : 0;
    clock_.after(least + own_.between(0, 2 * kMillisecond), [this] {
      if (before_ != nullptr) return;
      signalled_ = true;
      agent_->signal(number_);
    });
  }

  // No fault beside the signal.
  void check_signals() {
    const int code = *agent_->exit_code();
    require(code == 0 || code == 128 + number_, "a signal makes exit code " + std::to_string(code));
    if (whom_ == Whom::kOne && one_of_ > 1) require(code == 0, "one worker's signal ends the run");
    if (code == 0) {
      const std::uint64_t step =
          plan_.virtual_workers * (2 * host_.step_time + host_.most_preempted) + 10 * kMillisecond;
      const bool late = from_the_start_ &&
                        host_.last_commit_at > signals_at_ + options_.config.timing.signal_wait +
                                                   options_.tick + 4 * step;
      require(whom_ != Whom::kWorkers || !late, "the run goes on with a signal to all its workers");
      outcome_.let_go += agent_->incidents().empty() ? 0 : 1;
      return;
    }
    const std::uint64_t committed = agent_->coordinator().status().committed;
    require(agent_->finished() || host_.checkpoint.txn == committed, "the step under way is lost");
  }

  // Its draws are its own: the other schedules stay what they are.
  void limit_time(std::uint64_t seed) {
    Random random(~seed);
    const std::uint64_t all = plan_.transactions * plan_.virtual_workers * host_.step_time;
    host_.time_limit = random.between(kMillisecond, all);
    around_the_stop_ = random.between(0, 3);
    for (std::uint64_t i = 0; i < around_the_stop_; ++i)
      if (random.chance(0.5))
        clock_.after(random.between(0, 60 * kMillisecond), [this] { fault_at_the_stop(2000); });
  }

  // Once the time is up, or the last step recorded: whichever is seen first.
  void fault_at_the_stop(int tries) {
    if (agent_->exit_code() || tries == 0) return;
    if (!agent_->time_is_up() && host_.stop_file == 0) {
      clock_.after(kMillisecond, [this, tries] { fault_at_the_stop(tries - 1); });
      return;
    }
    clock_.after(random_.between(0, 30 * kMillisecond), [this] {
      if (agent_->exit_code()) return;
      ++outcome_.faults;
      last_fault_ = clock_.now();
      SimWorker* worker = victim();
      if (random_.chance(0.3)) return kill_everybody();
      if (worker != nullptr) worker->end({-1, SIGKILL});
    });
  }

  // Shares that take minutes, and debuggers. Its draws are its own too.
  void plan_standstills(std::uint64_t seed) {
    Random random(seed ^ 0x5107);
    for (std::uint64_t i = random.between(1, 2); i > 0; --i) {
      const std::uint64_t kind = random.between(0, 2);
      const std::uint64_t lasts =
          random.between(kSecond, random.chance(0.5) ? 20 * kSecond : kLongestSlow);
      clock_.after(random.between(0, 300 * kMillisecond),
                   [this, kind, lasts] { stand_still(kind, lasts); });
    }
  }

  void stand_still(std::uint64_t kind, std::uint64_t lasts) {
    if (agent_->exit_code()) return;
    ++outcome_.slowed;
    last_fault_ = clock_.now();
    slack_ += lasts + lasts / 10;
    longest_slow_ = std::max(longest_slow_, lasts + lasts / 10);
    if (kind == 0)
      for (SimWorker* worker : agent_->alive())
        worker->slow_down(random_.between(lasts, lasts + lasts / 10));
    SimWorker* worker = victim();
    if (worker == nullptr || kind == 0) return;
    if (kind == 1) return worker->slow_down(lasts);
    worker->stop();  // by a debugger: the agent is not told
    clock_.after(lasts, [this, worker] {
      if (worker->alive()) worker->go_on();
    });
  }

  // How long it may take until all who hang are known to: each in turn, and each eviction doubles
  // the limit, as what has ended by itself makes it ten times as long.
  std::uint64_t hang_slack() const {
    const std::uint64_t own = host_.own_code_txn ? host_.own_code + host_.own_code_more : 0;
    std::uint64_t each = 11 * std::max(longest_slow_, own) + coord::HangWatch::kLeast, all = 0;
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
    SimWorker* worker = victim();
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
      kill_everybody();
  }

  void refuse_spawns() {
    slack_ += 15 * kSecond;
    agent_->refuse_spawns(static_cast<int>(random_.between(1, 14)));
    if (SimWorker* worker = victim()) worker->end({-1, SIGKILL});
  }

  SimWorker* victim() {
    const auto alive = agent_->alive();
    return alive.empty() ? nullptr : alive[random_.between(0, alive.size() - 1)];
  }

  void fault() {
    if (agent_->exit_code()) return;
    ++outcome_.faults;
    last_fault_ = clock_.now();
    const std::uint64_t kind = random_.between(0, 19);
    SimWorker* worker = victim();
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
    if (kind == 10) return kill_everybody();
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

  void kill_everybody() {
    for (SimWorker* worker : agent_->alive()) worker->end({-1, SIGKILL});
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
    if (quiet_) check_signals();
    const coord::RunStatus status = agent_->coordinator().status();
    const auto charged =
        static_cast<std::size_t>(status.max_replacements - status.replacements_left);
    require(charged <= agent_->incidents().size() + failed_starts(),
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
    if ((signalled_ || agent_->stopped_by_workers()) && code == 128 + number_) return;
    if (attached_ && code == 69 && agent_->lost_at_start()) return;
    require(code == 1 || code == 75, "exit code " + std::to_string(code));
    require(agent_->lost_everybody() || agent_->lost_at_start() || stormy_,
            "the run stopped although somebody could go on");
  }

  std::size_t failed_starts() const {
    std::size_t count = 0;
    for (const auto& [number, incident] : agent_->incidents())
      for (const coord::Victim& victim : incident.victims)
        count += victim.cause.starts_with("not ") || victim.cause.starts_with("no hello");
    return count;
  }

  Random random_;
  Clock clock_;
  Plan plan_;
  std::vector<std::uint64_t> reference_;
  Host host_;
  std::unique_ptr<SimAgent> agent_;
  Outcome outcome_;
  std::uint64_t last_fault_ = 0, last_end_ = 0, hangs_ = 0, slack_ = 0;
  std::uint64_t last_quiet_ = 0;
  std::uint64_t strict_ = 0, longest_slow_ = 0;  // --hang-timeout
  std::size_t ends_ = 0;                         // of workers, so far
  std::uint64_t around_the_stop_ = 0;
  bool stormy_ = false;   // all zygotes may have been killed before any worker was there
  bool patient_ = false;  // has faults that take minutes
  const bool attached_;   // its workers are started by hand
  const bool signals_;    // to whomever
  const bool quiet_;      // and nothing else
  Random own_;            // for what came later: the other schedules stay what they are
  AgentOptions options_;
  std::unique_ptr<SimAgent> before_;  // of the same command's first run
  enum class Whom { kLauncher, kOne, kWorkers, kWorkersFirst, kLauncherFirst };
  Whom whom_ = Whom::kLauncher;
  int number_ = 0;
  std::uint64_t signals_at_ = 0;
  std::size_t one_of_ = 0;
  bool from_the_start_ = false;  // all were members when the signal came
  struct Wait {
    std::uint64_t commits, time, last_event;
  };
  std::map<WorkerUid, Wait> waiting_;  // newcomers, since they were first seen
  bool signalled_ = false;
};

}  // namespace

Outcome run_schedule(std::uint64_t seed, const BoardSizes& sizes) {
  return Schedule(seed, sizes).run();
}

}  // namespace lockstep::simulation

// Kills workers of a run at random moments with SIGKILL and says what each death cost, one JSON
// object a line; then the run's exit code. The times are the workers' own stamps in the run's
// shared memory; what only an observer can know (noticed, joined) is polled ten times a
// millisecond.
//
//   kill_driver --log FILE --seed N --kills N --until TXN [--delay MS] -- lockstep run ...
//
//   --until   no kill once a worker has applied this many transactions: time to heal
//   --delay   the random wait after everybody is back: 0 to this (default 200)
//
// Of each death, milliseconds from the SIGKILL:
//   exited    the kernel says that the process is gone: its memory is given back
//   noticed   the launcher put it on the list of the dead
//   aborted   the last survivor left what it did, with its new shares at hand: each works them out
//             from the list alone, so there is no regrouping to time apart
//   resumed   the first adopted share was begun; null: none was lost
//   total     the last survivor committed
//   joined    the replacement is in a table
// and milliseconds of the survivors:
//   computing the largest time inside data, forward, backward and optimizer in [kill, its commit],
//             rounded down where the observer cannot know; excess = total - computing
//   copy      the donor's, of the state for the newcomer
//   wait      the first member's, for the newcomer to be ready
//   own_stall the largest of one worker's copy + wait
//   stall     copy + wait: the donor is the table's last member and its first one waits, so that no
//             worker has booked both; the others book nothing and stand still for both
//   first_step  the newcomer's first transaction with shares, from the commit before
// The last line: the run's exit code, kills, and the median step between commits.
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "programs/step_clock.h"
#include "programs/watched_run.h"

namespace lockstep::bench {
namespace {

using namespace std::chrono_literals;

constexpr long kPoll_us = 100;
constexpr auto kRecoveryLimit = 30s;  // a run that needs longer hangs

struct Options {
  std::string log;
  std::uint64_t seed = 1, kills = 1, until = 1;
  double delay_ms = 200;
  std::vector<std::string> command;
};

struct Survivor {
  coord::Member member;
  Busy before;
  std::uint64_t copy_before_ns = 0, wait_before_ns = 0;
  std::uint64_t committed_ns = 0, computing_ns = 0;  // 0: not yet
};

double ms(std::uint64_t ns) { return static_cast<double>(ns) / 1e6; }

// What the kernel says of one process; it stays true of that process when its id is used again.
class Life {
 public:
  explicit Life(pid_t pid) : fd_(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))) {}
  bool over() const {
    pollfd look{fd_.get(), POLLIN, 0};
    return fd_ && poll(&look, 1, 0) == 1;
  }

 private:
  UniqueFd fd_;
};

class Killer {
 public:
  Killer(WatchedRun& run, const Options& options)
      : run_(run), options_(options), random_(options.seed), clock_(run.board()) {}

  // False: the run is about to end.
  bool kill_one() {
    if (!wait_for([&] { return everybody_is_there(); }, "all members")) return false;
    std::uniform_real_distribution<double> delay(0, options_.delay_ms * 1000);
    watch_for(std::chrono::microseconds(static_cast<long>(delay(random_))));
    if (near_end() || !everybody_is_there()) return !near_end();
    const auto table = run_.newest_table();
    const std::vector<pid_t> workers = run_.workers();
    if (!table || workers.size() != table->members.size()) return true;
    strike(*table, workers[random_() % workers.size()]);
    return true;
  }

  std::uint64_t done() const { return done_; }
  double median_step_ms() const { return clock_.median_ms(); }

 private:
  struct Seen {
    std::uint64_t kill_ns, exited_ns, noticed_ns;
  };

  // All waiting is done here, so that no commit is missed.
  void look() {
    clock_.look();
    pause(std::chrono::microseconds(kPoll_us));
  }

  void watch_for(std::chrono::microseconds time) {
    const Deadline end = Deadline::in(time);
    while (!end.passed()) look();
  }

  bool near_end() const {
    const auto table = run_.newest_table();
    return table && table->txn.value() >= options_.until;
  }

  bool everybody_is_there() {
    const auto table = run_.newest_table();
    if (!table) return false;
    if (members_ == 0) members_ = table->members.size();
    if (table->members.size() != members_ || run_.workers().size() != members_) return false;
    const std::uint64_t dead = run_.dead_count();
    for (std::uint64_t i = 0; i < dead; ++i)
      for (const coord::Member& member : table->members)
        if (member.uid == run_.dead(i)) return false;
    return true;
  }

  // False: the run came near its end first.
  template <class Condition>
  bool wait_for(const Condition& condition, const char* what) {
    const Deadline deadline = Deadline::in(kRecoveryLimit);
    while (!condition()) {
      if (near_end() || run_.ended()) return false;
      if (deadline.passed()) fail(std::string("no ") + what + " within 30 s: the run hangs");
      look();
    }
    return true;
  }

  void strike(const coord::Table& table, pid_t victim) {
    const std::uint64_t dead_before = run_.dead_count();
    std::vector<Survivor> members;
    for (const coord::Member& member : table.members) {
      const coord::WorkerSlot& slot = run_.board().slot(member.slot);
      members.push_back({member, {}, slot.heal_stall_ns.load(), slot.join_stall_ns.load()});
    }
    const Life life(victim);
    const std::uint64_t kill_ns = monotonic_ns();
    if (kill(victim, SIGKILL) != 0) return;
    for (Survivor& s : members) s.before = WatchedRun::busy(run_.board().slot(s.member.slot));
    std::uint64_t noticed_ns = 0, exited_ns = 0;
    const Deadline deadline = Deadline::in(kRecoveryLimit);
    for (;;) {
      if (exited_ns == 0 && life.over()) exited_ns = monotonic_ns();
      if (noticed_ns == 0 && run_.dead_count() > dead_before) {
        noticed_ns = monotonic_ns();
        std::erase_if(members,
                      [&](const Survivor& s) { return s.member.uid == run_.dead(dead_before); });
      }
      if (noticed_ns != 0 && all_committed(members, kill_ns)) break;
      if (deadline.passed()) fail("no commit within 30 s of a kill: the run hangs");
      look();
    }
    report({kill_ns, exited_ns, noticed_ns}, members);
  }

  bool all_committed(std::vector<Survivor>& members, std::uint64_t kill_ns) {
    bool all = true;
    for (Survivor& s : members) {
      if (s.committed_ns != 0) continue;
      const coord::WorkerSlot& slot = run_.board().slot(s.member.slot);
      const std::uint64_t committed = slot.committed_ns.load();
      if (slot.abort_seen_ns.load() > kill_ns && committed > kill_ns) {
        const Busy now = WatchedRun::busy(slot);
        // It may have computed since its commit: all of that time is taken off.
        const std::uint64_t since_commit = now.at > committed ? now.at - committed : 0;
        const std::uint64_t computed = now.ns - s.before.ns;
        s.committed_ns = committed;
        s.computing_ns = computed > since_commit ? computed - since_commit : 0;
      } else {
        all = false;
      }
    }
    return all;
  }

  void report(const Seen& seen, std::vector<Survivor>& survivors) {
    std::uint64_t aborted = 0, resumed = 0, committed = 0, computing = 0, txn = 0;
    for (const Survivor& s : survivors) {
      const coord::WorkerSlot& slot = run_.board().slot(s.member.slot);
      aborted = std::max(aborted, slot.abort_seen_ns.load());
      const std::uint64_t began = slot.resumed_ns.load();
      if (began > seen.kill_ns && (resumed == 0 || began < resumed)) resumed = began;
      committed = std::max(committed, s.committed_ns);
      computing = std::max(computing, s.computing_ns);
      txn = std::max(txn, slot.applied.load());
    }
    computing = std::min(computing, committed - seen.kill_ns);
    const auto since = [&](std::uint64_t at) -> nlohmann::json {
      if (at == 0) return nullptr;
      return at > seen.kill_ns ? ms(at - seen.kill_ns) : 0.0;
    };
    nlohmann::json line = {{"txn", txn},
                           {"exited", since(seen.exited_ns)},
                           {"noticed", since(seen.noticed_ns)},
                           {"aborted", since(aborted)},
                           {"resumed", since(resumed)},
                           {"total", since(committed)},
                           {"computing", ms(computing)},
                           {"excess", ms(committed - seen.kill_ns - computing)},
                           {"joined", nullptr},
                           {"first_step", nullptr}};
    if (wait_for([&] { return everybody_is_there(); }, "replacement")) {
      line["joined"] = since(monotonic_ns());
      add_join(line, survivors);
    }
    std::printf("%s\n", line.dump().c_str());
    ++done_;
  }

  void add_join(nlohmann::json& line, const std::vector<Survivor>& survivors) {
    std::uint64_t copy = 0, waited = 0, own = 0;
    for (const Survivor& s : survivors) {
      const coord::WorkerSlot& slot = run_.board().slot(s.member.slot);
      const std::uint64_t its_copy = slot.heal_stall_ns.load() - s.copy_before_ns;
      const std::uint64_t its_wait = slot.join_stall_ns.load() - s.wait_before_ns;
      copy = std::max(copy, its_copy);
      waited = std::max(waited, its_wait);
      own = std::max(own, its_copy + its_wait);
    }
    line["copy"] = ms(copy);
    line["wait"] = ms(waited);
    line["own_stall"] = ms(own);
    line["stall"] = ms(copy + waited);
    const std::uint64_t first = run_.newest_table()->txn.value();  // with shares of its own
    if (!wait_for([&] { return clock_.committed(first); }, "step of the newcomer")) return;
    line["first_step"] = clock_.step_ms(first);
  }

  WatchedRun& run_;
  const Options& options_;
  std::mt19937_64 random_;
  std::size_t members_ = 0;
  std::uint64_t done_ = 0;
  StepClock clock_;
};

int drive(const Options& options) {
  WatchedRun run(options.command, options.log);
  // An observer that waits for a CPU measures itself. Without the right to it, figures are a little
  // worse.
  setpriority(PRIO_PROCESS, 0, -20);
  while (!run.find_board() && !run.ended()) pause(std::chrono::microseconds(kPoll_us));
  Killer killer(run, options);
  while (!run.ended() && killer.done() < options.kills && killer.kill_one()) {
  }
  const int code = run.wait();
  std::printf("%s\n", nlohmann::json({{"exit", code},
                                      {"kills", killer.done()},
                                      {"median_step", killer.median_step_ms()}})
                          .dump()
                          .c_str());
  return code;
}

Options parse(int argc, char** argv) {
  Options options;
  int i = 1;
  for (; i + 1 < argc && std::string_view(argv[i]) != "--"; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--log")
      options.log = value;
    else if (name == "--seed")
      options.seed = std::strtoull(value, nullptr, 10);
    else if (name == "--kills")
      options.kills = std::strtoull(value, nullptr, 10);
    else if (name == "--until")
      options.until = std::strtoull(value, nullptr, 10);
    else if (name == "--delay")
      options.delay_ms = std::strtod(value, nullptr);
    else
      fail("kill_driver: unknown option " + std::string(name));
  }
  for (++i; i < argc; ++i) options.command.emplace_back(argv[i]);
  if (options.log.empty() || options.command.empty()) fail("kill_driver --log FILE ... -- COMMAND");
  return options;
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  return lockstep::bench::drive(lockstep::bench::parse(argc, argv));
}

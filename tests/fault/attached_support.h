// Toy workers that are started by hand, one command for each rank.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <memory>

#include "fault/launcher_support.h"
#include "support/until.h"

namespace lockstep::test {

class Attached : public ToyRun {
 protected:
  using Ranks = std::vector<std::unique_ptr<Child>>;
  static constexpr int kRanks = 3;

  // Of this test alone, on this machine: nothing binds the port itself.
  static std::string port() { return std::to_string(20'000 + ::getpid() % 40'000); }
  static std::string address() { return "tcp://127.0.0.1:" + port(); }
  static std::string socket_name() {
    return "@lockstep/" + std::to_string(::geteuid()) + "/127.0.0.1/" + port();
  }
  Words by_hand(int rank, const Words& options, int world = kRanks,
                const std::string& where = address()) const {
    Words words{TOY_WORKER, "--run-dir",          run_dir(), "--address",          where,
                "--rank",   std::to_string(rank), "--world", std::to_string(world)};
    words.insert(words.end(), options.begin(), options.end());
    return words;
  }
  std::unique_ptr<Child> begin(int rank, const Words& options, const Child::Variables& more = {},
                               int world = kRanks) const {
    return std::make_unique<Child>(by_hand(rank, options, world), variables(more));
  }
  Ranks begin_all(const Words& options, const Child::Variables& more = {}) const {
    Ranks ranks;
    for (int rank = kRanks - 1; rank >= 0; --rank) ranks.push_back(begin(rank, options, more));
    std::ranges::reverse(ranks);
    return ranks;
  }
  static Child::Variables variables(const Child::Variables& more = {}) {
    Child::Variables all{{"LOCKSTEP_LAUNCHER", LOCKSTEP_PROGRAM}};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  pid_t launcher() const {
    for (const pid_t pid : processes_with(run_dir()))
      if (read_text("/proc/" + std::to_string(pid) + "/cmdline").find(LOCKSTEP_PROGRAM) == 0)
        return pid;
    return -1;
  }
  bool all_gone() const {
    return until([&] { return processes_with(run_dir()).empty(); });
  }
  static void expect_well(Child& rank) {
    const Outcome outcome = rank.wait();
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
  void TearDown() override {
    EXPECT_TRUE(all_gone()) << "a process is left behind";
    const auto bound = [] {
      return read_text("/proc/net/unix").find(socket_name() + "\n") != std::string::npos;
    };
    EXPECT_TRUE(until([&] { return !bound(); })) << "a socket is left behind";
    ToyRun::TearDown();
  }
};

inline const std::vector<std::string> kSlow{"--txns", "60", "--step-us", "20000"};
// Time enough for others to be started meanwhile.
inline const std::vector<std::string> kLong{"--txns", "200", "--step-us", "20000"};

}  // namespace lockstep::test

// Commands that bring several ranks each (lockstep::spawn() with a Rendezvous, spawn_worker.cpp):
// one run, the same weights, whoever is killed.
#include <gmock/gmock.h>
#include <unistd.h>

#include <sstream>

#include "support/child.h"
#include "support/output.h"
#include "support/until.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Ranks : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  static std::string address() {
    return "tcp://127.0.0.1:" + std::to_string(20'000 + ::getpid() % 40'000);
  }
  // Two of four ranks.
  Words command(int rank, const std::string& name, int world = 4) const {
    return {SPAWN_WORKER,         "2", name, folder_ / "run", "at", address(), std::to_string(rank),
            std::to_string(world)};
  }
  std::string expected(const std::string& name = "train") const {
    folder_.write("alone-go", "");
    return hash_in(run({SPAWN_WORKER, "init", name, folder_ / "alone"}));
  }
  std::vector<pid_t> ranks_of(const Child& command) const {
    const std::string pid = std::to_string(command.pid());
    std::istringstream line(read_text("/proc/" + pid + "/task/" + pid + "/children"));
    return {std::istream_iterator<pid_t>(line), {}};
  }
  static void expect_well(Child& command) {
    const Outcome outcome = command.wait();
    EXPECT_EQ(outcome.code, 0) << outcome.err;
  }
  bool has(const std::string& workers) const {
    return until([&] {
      return run({LOCKSTEP_PROGRAM, "status", folder_ / "run"}).out.find(workers) !=
             std::string::npos;
    });
  }
  void TearDown() override {
    EXPECT_TRUE(until([&] { return processes_with(folder_.path()).empty(); }))
        << "a process is left behind";
  }
  TempFolder folder_;
};

TEST_F(Ranks, OfTwoCommandsAreOneRun) {
  Child second(command(2, "train")), first(command(0, "train"));
  const Outcome zero = first.wait(), two = second.wait();
  EXPECT_EQ(zero.code, 0) << zero.err;
  EXPECT_EQ(two.code, 0) << two.err;
  EXPECT_EQ(hash_in(zero), expected());
  for (const auto& [out, rank] :
       {std::pair{zero.out, 0}, {zero.out, 1}, {two.out, 2}, {two.out, 3}})
    EXPECT_EQ(count(out, "rank " + std::to_string(rank) + " of 4 inherits 42,"), 1) << out;
  EXPECT_EQ(count(two.out, "before, once\n"), 1);
  EXPECT_EQ(count(two.out, "spawn() has returned\n"), 1);
}

TEST_F(Ranks, OneCommandMayBringAll) {
  const Outcome outcome = run(command(0, "train", 2));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(hash_in(outcome), expected());
}

TEST_F(Ranks, AKilledOneIsToldAndTheOthersGoOn) {
  Child first(command(0, "held")), second(command(2, "held"));
  ASSERT_TRUE(first.wait_for_output("Epoch [3/20]")) << first.err();
  const pid_t victim = ranks_of(second).at(1);
  EXPECT_EQ(::getsid(victim), victim) << "a terminal's Ctrl-C would come twice";
  ::kill(victim, SIGKILL);
  ASSERT_TRUE(first.wait_for_output("Epoch [10/20]")) << first.err();
  folder_.write("run-go", "");
  const Outcome zero = first.wait(), two = second.wait();
  EXPECT_EQ(hash_in(zero), expected()) << zero.err;
  EXPECT_EQ(two.code, 0) << "a rank of it has ended well";
  EXPECT_THAT(two.err, HasSubstr("rank 3 (process " + std::to_string(victim) +
                                 ") was ended by signal 9: nobody starts it again"));
}

TEST_F(Ranks, AKilledCommandTakesItsRanksAlongAndJoinsAgain) {
  Child first(command(0, "long"));
  {
    Child second(command(2, "long"));
    ASSERT_TRUE(first.wait_for_output("Epoch [3/700]")) << first.err();
    second.send(SIGKILL);
    EXPECT_EQ(second.wait().code, -SIGKILL);
  }
  EXPECT_TRUE(has("2 of 4")) << first.err();
  Child again(command(2, "long"));
  EXPECT_TRUE(has("4 of 4")) << first.err();
  folder_.write("run-go", "");
  const Outcome zero = first.wait();
  EXPECT_EQ(hash_in(zero), expected("long")) << zero.err;
  expect_well(again);
}

TEST_F(Ranks, ASignalEndsTheCommandAndNotTheRun) {
  Child first(command(0, "held")), second(command(2, "held"));
  ASSERT_TRUE(first.wait_for_output("Epoch [3/20]")) << first.err();
  second.send(SIGTERM);
  const Outcome ended = second.wait();
  EXPECT_EQ(ended.code, -SIGTERM) << ended.err;
  EXPECT_THAT(ended.err, Not(HasSubstr("nobody starts it again"))) << "it was asked for";
  folder_.write("run-go", "");
  const Outcome zero = first.wait();
  EXPECT_EQ(hash_in(zero), expected()) << zero.err;
}

// A rank that was taken out has ended well, and the command has not for that.
TEST_F(Ranks, ASignalEndsACommandWhoseOtherRankWasTakenOut) {
  Child first(command(0, "long")), second(command(2, "long"));
  ASSERT_TRUE(first.wait_for_output("Epoch [3/700]")) << first.err();
  const Outcome scaled = run({LOCKSTEP_PROGRAM, "scale", folder_ / "run", "3"});
  EXPECT_EQ(scaled.code, 0) << scaled.err;
  EXPECT_TRUE(until([&] { return ranks_of(second).size() == 1; })) << second.err();
  second.send(SIGTERM);
  EXPECT_EQ(second.wait().code, -SIGTERM);
  folder_.write("run-go", "");
  EXPECT_EQ(hash_in(first.wait()), expected("long"));
}

TEST_F(Ranks, AnErrorEndsAllCommandsWithItsExitCode) {
  Child first(command(0, "fails")), second(command(2, "fails"));
  const Outcome zero = first.wait(), two = second.wait();
  EXPECT_EQ(zero.code, 65) << zero.err;
  EXPECT_EQ(two.code, 65) << two.err;
  EXPECT_THAT(zero.err, HasSubstr("picture 7 is no picture"));
  EXPECT_THAT(zero.err, HasSubstr("ended with exit code 65; its error is above"));
}

TEST_F(Ranks, WhatCannotBeIsSaidOnce) {
  const auto refused = [&](Words words, const std::string& message, const Words& more = {}) {
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(count(outcome.err, message), 1) << outcome.err;
  };
  refused(command(3, "train"), "its ranks would be 3 to 4, and of 4 there are 0 to 3");
  refused(command(2'147'483'647, "train"), "the rank is 2147483647");
  refused(command(0, "thread"), "'prefetcher' (id ");
  refused(command(0, "train"), "options of the launcher ('--max-restarts', ...)",
          {"--max-restarts", "1"});
  Words elsewhere = command(0, "train");
  elsewhere[5] = "tcp://192.0.2.1:29500";
  refused(elsewhere, "which is another machine");
}

}  // namespace
}  // namespace lockstep::test

// Runs whose processes are started by hand, one command for each rank: killed, stopped, ended.
#include "fault/attached_support.h"
#include "support/output.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

TEST_F(Attached, ThreeCommandsAreOneRun) {
  Ranks ranks = begin_all({"--txns", "40"});
  for (auto& rank : ranks) {
    const Outcome outcome = rank->wait();
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    // The run's lines are rank 0's; the others have none of their own.
    if (rank == ranks[0]) {
      EXPECT_EQ(last_line(outcome.out), expected("40"));
      EXPECT_THAT(outcome.err, HasSubstr("3 workers, started by hand; "));
    } else {
      EXPECT_EQ(outcome.out + outcome.err, "");
    }
  }
  EXPECT_TRUE(all_gone());
}

TEST_F(Attached, AKilledOneJoinsAgainByTheSameCommand) {
  Ranks ranks = begin_all(kLong);
  for (const int victim : {1, 0}) {
    const std::string step = victim == 1 ? "step 5\n" : "step 10\n";
    ASSERT_TRUE(ranks[0]->wait_for_output(step)) << ranks[0]->err();
    ranks[victim]->send(SIGKILL);
    EXPECT_EQ(ranks[victim]->wait().code, -SIGKILL);
    ranks[victim] = begin(victim, kLong);
    ASSERT_TRUE(until([&] {
      return run({LOCKSTEP_PROGRAM, "status", run_dir()}).out.find("3 of 3") != std::string::npos;
    }));
  }
  const Outcome first = ranks[0]->wait();
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(last_line(first.out), expected("200"));
  for (const int rank : {1, 2}) expect_well(*ranks[rank]);
  EXPECT_EQ(incidents(), 2);
}

TEST_F(Attached, TheOthersFinishWithoutTheDead) {
  Ranks ranks = begin_all(kSlow);
  ASSERT_TRUE(ranks[0]->wait_for_output("step 5\n"));
  ranks[2]->send(SIGKILL);
  const Outcome first = ranks[0]->wait();
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(last_line(first.out), expected("60"));
  EXPECT_THAT(first.err, HasSubstr("rank 2 (worker 3) died (cause unknown); the others go on, and "
                                   "the same command joins them again"));
  expect_well(*ranks[1]);
}

TEST_F(Attached, AllKilledGoOnByTheSameCommands) {
  const Words options{"--txns", "60", "--step-us", "20000", "--checkpoint-every", "5"};
  Ranks ranks = begin_all(options);
  ASSERT_TRUE(ranks[0]->wait_for_output("step 12\n"));
  for (auto& rank : ranks) rank->send(SIGKILL);
  for (auto& rank : ranks) rank->wait();
  ranks = begin_all(options);  // while the launcher may still be ending
  const Outcome first = ranks[0]->wait();
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(last_line(first.out), expected("60"));
  EXPECT_GE(steps_in(first.out).front(), 10);  // from a checkpoint
  for (const int rank : {1, 2}) expect_well(*ranks[rank]);
}

TEST_F(Attached, AStoppedOneIsGivenUpAfterItsGrace) {
  Ranks ranks = begin_all(kSlow);
  ASSERT_TRUE(ranks[0]->wait_for_output("step 5\n"));
  ranks[1]->send(SIGSTOP);
  EXPECT_EQ(ranks[1]->wait().code, -SIGKILL);
  const Outcome first = ranks[0]->wait();
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(last_line(first.out), expected("60"));
  const double seconds = number_behind(first.err, "rank 1 (worker 2) died (stopped for ");
  EXPECT_GE(seconds, 1) << first.err;
  EXPECT_LT(seconds, 30) << first.err;
  expect_well(*ranks[2]);
}

TEST_F(Attached, ALaunchersDeathEndsAllAtOnce) {
  Ranks ranks = begin_all({"--txns", "100000", "--step-us", "20000"});
  ASSERT_TRUE(ranks[0]->wait_for_output("step 5\n"));
  const pid_t agent = launcher();
  ASSERT_GT(agent, 0);
  ::kill(agent, SIGKILL);
  for (auto& rank : ranks) {
    const Outcome outcome = rank->wait();
    EXPECT_EQ(outcome.code, 1);
    EXPECT_THAT(outcome.err, HasSubstr("the launcher of this run is gone"));
  }
  std::filesystem::remove(run_dir() + "/.tmp-lockstep-control");  // all that a killed one leaves
}

TEST_F(Attached, TermToTheLauncherEndsTheRunInOrder) {
  Ranks ranks = begin_all({"--txns", "100000", "--step-us", "20000"});
  ASSERT_TRUE(ranks[0]->wait_for_output("step 5\n"));
  const pid_t pid = launcher();
  ASSERT_GT(pid, 1);
  ::kill(pid, SIGTERM);
  for (auto& rank : ranks) expect_well(*rank);
}

TEST_F(Attached, AnExitBeforeTheEndIsADeathOfUnknownCause) {
  Ranks ranks = begin_all({"--txns", "60", "--step-us", "5000", "--exit-early", "1:20:2"});
  EXPECT_EQ(ranks[1]->wait().code, 2);
  // What it exits with nobody knows but its parent: the others go on.
  for (const int rank : {0, 2}) expect_well(*ranks[rank]);
}

TEST_F(Attached, AnErrorThatEndsTheRunIsToldEverywhere) {
  Ranks ranks = begin_all({"--txns", "60", "--step-us", "5000", "--fail", "1:20:65"});
  const std::string error = "rank 1 (worker 2): the toy was told to fail in transaction 20";
  for (const int rank : {0, 1, 2}) {
    const Outcome outcome = ranks[rank]->wait();
    EXPECT_EQ(outcome.code, 65) << outcome.err;
    if (rank == 0) {
      EXPECT_THAT(outcome.err, HasSubstr("lockstep: error: " + error));
    } else if (rank == 2) {
      EXPECT_EQ(outcome.err, "lockstep: error: the run ends: " + error + "\n");
    }
  }
}

TEST_F(Attached, ManyAtTheSameInstantHaveOneLauncher) {
  for (int i = 0; i < 5; ++i) {
    Ranks ranks;
    for (int rank = 0; rank < 8; ++rank)
      ranks.push_back(begin(rank, {"--txns", "10", "--shares", "8"}, {}, 8));
    for (auto& rank : ranks) expect_well(*rank);
    EXPECT_TRUE(all_gone());
    std::filesystem::remove_all(run_dir());
  }
}

TEST_F(Attached, TheEnvironmentSaysItAsWithTorch) {
  Ranks ranks;
  for (int rank = 0; rank < kRanks; ++rank)
    ranks.push_back(
        std::make_unique<Child>(Words{TOY_WORKER, "--run-dir", run_dir(), "--txns", "40"},
                                variables({{"MASTER_ADDR", "localhost"},
                                           {"MASTER_PORT", port()},
                                           {"RANK", std::to_string(rank)},
                                           {"WORLD_SIZE", "3"}})));
  EXPECT_EQ(last_line(ranks[0]->wait().out), expected("40"));
  for (const int rank : {1, 2}) expect_well(*ranks[rank]);
}

TEST_F(Attached, OneRankRunsAlone) {
  for (const std::string& where : {std::string(), address()}) {
    const Outcome alone = run(by_hand(0, {"--txns", "40"}, 1, where), variables());
    EXPECT_EQ(alone.code, 0) << alone.err;
    EXPECT_EQ(last_line(alone.out), expected("40"));
    std::filesystem::remove_all(run_dir());
  }
}

}  // namespace
}  // namespace lockstep::test

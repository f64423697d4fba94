// DistributedDataParallel as users meet it: real workers, values with closed forms
// (ddp_worker.cpp).
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "support/child.h"
#include "support/until.h"

namespace lockstep::test {
namespace {

class Ddp : public ::testing::Test {
 protected:
  Outcome ranks(int count, const std::string& name, std::vector<std::string> options = {}) const {
    std::vector<std::string> command{LOCKSTEP_PROGRAM, "run", "--nproc-per-node",
                                     std::to_string(count)};
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), {DDP_WORKER, name, folder_ / "run"});
    return run(command);
  }
  // One command for each rank, the last one first.
  std::vector<Outcome> by_hand(int count, const std::string& name) const {
    const std::string port = std::to_string(20'000 + ::getpid() % 40'000);
    std::vector<std::unique_ptr<Child>> ranks;
    for (int rank = count - 1; rank >= 0; --rank)
      ranks.push_back(
          std::make_unique<Child>(std::vector<std::string>{DDP_WORKER, name, folder_ / "run"},
                                  Child::Variables{{"MASTER_ADDR", "127.0.0.1"},
                                                   {"MASTER_PORT", port},
                                                   {"RANK", std::to_string(rank)},
                                                   {"WORLD_SIZE", std::to_string(count)},
                                                   {"LOCKSTEP_LAUNCHER", LOCKSTEP_PROGRAM}}));
    std::vector<Outcome> outcomes;
    for (const auto& rank : ranks) outcomes.push_back(rank->wait());
    return outcomes;
  }
  void TearDown() override {
    // The launcher of ranks that are started by hand ends with the last of them, not before.
    EXPECT_TRUE(until([&] { return processes_with(folder_.path()).empty(); }))
        << "a process is left behind";
  }
  TempFolder folder_;
};

TEST_F(Ddp, ValuesAreThoseOfTheClosedForms) {
  for (const char* name : {"gradients", "buffers", "two-modules", "wrapped-twice", "tied",
                           "unused-allowed", "frozen-for-a-while", "collectives"})
    for (const int count : {1, 2, 3, 5}) {
      const Outcome outcome = ranks(count, name);
      EXPECT_EQ(outcome.code, 0) << name << " on " << count << ": " << outcome.err;
    }
}

TEST_F(Ddp, WorksWithoutTheLauncher) {
  for (const char* name : {"gradients", "buffers", "collectives"}) {
    const Outcome outcome = run({DDP_WORKER, name, folder_ / "run"});
    EXPECT_EQ(outcome.code, 0) << name << ": " << outcome.err;
  }
}

TEST_F(Ddp, RanksStartedByHandHaveTheSameValues) {
  for (const char* name : {"gradients", "buffers", "collectives"})
    for (const Outcome& outcome : by_hand(3, name)) EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(Ddp, ADeathAmongRanksStartedByHandEndsAllOfThem) {
  const std::vector<Outcome> ranks = by_hand(3, "death");
  EXPECT_EQ(std::ranges::count(ranks, -SIGKILL, &Outcome::code), 1);
  for (const Outcome& rank : ranks) {
    EXPECT_NE(rank.code, 0);
    EXPECT_NE(rank.code, -1000) << "hung: " << rank.err;
  }
}

TEST_F(Ddp, UnusedParametersAreNamed) {
  const Outcome outcome = ranks(3, "unused");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("extra"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("find_unused_parameters"), std::string::npos) << outcome.err;
}

TEST_F(Ddp, SparseGradientsAreRefusedByName) {
  for (const auto& [name, told] :
       {std::pair("sparse", "'bag.weight' has sparse gradients"),
        std::pair("sparse-by-call", "the gradient of 'bag.weight' is sparse")}) {
    const Outcome outcome = ranks(3, name);
    EXPECT_EQ(outcome.code, 2) << name << ": " << outcome.err;
    EXPECT_NE(outcome.err.find(told), std::string::npos) << name << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("sparse(false)"), std::string::npos) << name << ": " << outcome.err;
  }
}

TEST_F(Ddp, ParametersChangedAfterWrappingAreToldApart) {
  for (const auto& [name, told] :
       {std::pair("frozen-late", "frozen after the module was wrapped: extra"),
        std::pair("thawed-late", "'extra' was unfrozen"),
        std::pair("swapped-late", "'extra' was unfrozen"),
        std::pair("added-late", "'late' was added"),
        std::pair("replaced-late", "'other.w' was added")}) {
    const Outcome outcome = ranks(3, name);
    EXPECT_EQ(outcome.code, 2) << name << ": " << outcome.err;
    EXPECT_NE(outcome.err.find(told), std::string::npos) << name << ": " << outcome.err;
    EXPECT_EQ(outcome.err.find("set requires_grad to false"), std::string::npos) << outcome.err;
  }
}

TEST_F(Ddp, AParameterFrozenInOneRankAloneIsTold) {
  const Outcome outcome = ranks(3, "frozen-by-rank");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("rank 0 has 'nothing more', rank 1 has 'extra is frozen"),
            std::string::npos)
      << outcome.err;
}

TEST_F(Ddp, DifferentModulesAreToldApart) {
  const Outcome outcome = ranks(3, "different-modules");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("differ between ranks"), std::string::npos) << outcome.err;
}

TEST_F(Ddp, ADeathEndsTheLoopAndARestartBeginsItAnew) {
  const Outcome ended = ranks(3, "death");
  EXPECT_EQ(ended.code, 75) << ended.err;  // killed from outside, no restart left
  EXPECT_NE(ended.err.find("SIGKILL"), std::string::npos) << ended.err;
  const Outcome restarted = ranks(3, "death", {"--max-restarts", "1"});
  EXPECT_EQ(restarted.code, 0) << restarted.err;
  EXPECT_EQ(restarted.out, "came to the end\n");
}

}  // namespace
}  // namespace lockstep::test

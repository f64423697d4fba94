// The rules of nodes/ under kills, pauses, cuts and moves, by seed: never two attempts at once,
// never a rank twice, and an end. `--seed N` repeats one, `--schedules N` tries so many.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <iostream>

#include "world.h"

namespace lockstep::simulation {
namespace {

std::uint64_t first_seed = 1;
std::uint64_t schedules = 300;

// The first violation in so many schedules, or "".
std::string first_violation(const Trouble& trouble, std::uint64_t most) {
  for (std::uint64_t seed = first_seed; seed < first_seed + most; ++seed) try {
      (void)run_nodes(seed, trouble);
    } catch (const Violation& violation) {
      return "seed " + std::to_string(seed) + ": " + violation.what();
    }
  return "";
}

TEST(Nodes, NeverTwoAttemptsAtOnce) {
  for (const int n : {2, 3, 4})
    EXPECT_EQ(first_violation({.nodes = n, .max_restarts = 1000}, schedules), "") << n << " nodes";
}

TEST(Nodes, ABudgetIsCountedOnce) {
  EXPECT_EQ(first_violation({.max_restarts = 2}, schedules), "");
}

TEST(Nodes, WithoutFaultsAllEndWithNought) {
  const Outcome outcome = run_nodes(1, {.nodes = 4, .faults_per_second = 1e-6});
  EXPECT_EQ(outcome.attempts, 1U);
  EXPECT_EQ(outcome.codes, (std::vector<int>{0, 0, 0, 0}));
}

// A simulation that cannot find these finds nothing. Some take moves, one close to the other.
TEST(Nodes, FindsWhatWasPutInOnPurpose) {
  Trouble usual{.max_restarts = 1000}, moves{.max_restarts = 1000};
  moves.only_moves = true;
  moves.faults_per_second = 1;
  EXPECT_EQ(first_violation(moves, schedules), "");
  for (const Planted planted :
       {Planted::kNoGrace, Planted::kAttemptToldBefore, Planted::kDeadNotAwaited,
        Planted::kRankTwice, Planted::kFinalByHalf}) {
    usual.planted = moves.planted = planted;
    EXPECT_NE(first_violation(usual, 300) + first_violation(moves, 3000), "")
        << static_cast<int>(planted);
  }
}

TEST(Nodes, EveryFaultHappens) {
  std::map<std::string, int> seen;
  for (std::uint64_t seed = 1; seed < 40; ++seed)
    for (const auto& [kind, times] : run_nodes(seed, {.max_restarts = 1000}).faults)
      seen[kind] += times;
  for (const char* kind :
       {"agent killed", "worker killed", "paused", "cut", "cut one way", "moved", "signalled"})
    EXPECT_GT(seen[kind], 0) << kind;
}

}  // namespace
}  // namespace lockstep::simulation

int main(int argc, char** argv) {
  using namespace lockstep::simulation;
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::uint64_t value = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--seed") == 0) {
      first_seed = value;
      schedules = 1;
    } else if (std::strcmp(argv[i], "--schedules") == 0) {
      schedules = value;
    } else {
      std::cerr << "unknown option '" << argv[i] << "'; known: --seed N, --schedules N\n";
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}

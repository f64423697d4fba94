#include "train/rehearsals.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lockstep::training {
namespace {

// By step the virtual workers whose shares are computed twice, of four: "0:0123 1:1 2:2 4:3".
std::string twice(const Rehearsals& rehearsals, std::int64_t steps, std::int64_t update = 0,
                  bool buffers = false) {
  std::string text;
  for (Position at{.update = update}; at.global_step < steps; ++at.global_step) {
    std::string workers;
    const std::vector<bool> due = rehearsals.due(at, 4, buffers);
    for (std::size_t v = 0; v < due.size(); ++v)
      if (due[v]) workers += std::to_string(v);
    if (!workers.empty())
      text += (text.empty() ? "" : " ") + std::to_string(at.global_step) + ":" + workers;
  }
  return text;
}

TEST(Rehearsals, OneShareOfEachEarlyStepIsAnotherOnes) {
  Rehearsals rehearsals({}, 1);
  rehearsals.count(0);
  EXPECT_EQ(twice(rehearsals, 100), "1:1 2:2 4:3 8:0 16:1 32:2 64:3");
}

// Not in step 1, whose repeater has repeated it in step 0.
TEST(Rehearsals, VirtualWorkerZerosBesideItWhereItLeavesBuffers) {
  Rehearsals rehearsals({}, 1);
  rehearsals.count(0);
  EXPECT_EQ(twice(rehearsals, 100, 0, true), "1:1 2:02 4:03 8:0 16:01 32:02 64:03");
}

TEST(Rehearsals, AndInEachOfItsUpdates) {
  Rehearsals rehearsals({}, 2);
  for (const std::int64_t update : {0, 1}) rehearsals.count(update);
  EXPECT_EQ(twice(rehearsals, 10, 0), "1:1 2:2 4:3 8:0");
  EXPECT_EQ(twice(rehearsals, 10, 1), "1:2 2:3 4:0 8:1");
}

TEST(Rehearsals, InTheirFirstStepsAllAre) {
  const Rehearsals rehearsals({}, 2);
  EXPECT_EQ(twice(rehearsals, 3), "0:0123 1:0123 2:0123");  // none has been counted
}

// Each in turn.
TEST(Rehearsals, InFurtherOnesAllButOneAre) {
  RunOptions options;
  options.rehearse = 6;
  Rehearsals rehearsals(options, 1);
  EXPECT_EQ(twice(rehearsals, 2), "0:0123 1:0123");  // as long as none has been counted
  rehearsals.count(0);
  EXPECT_EQ(twice(rehearsals, 5), "0:123 1:023 2:013 3:012 4:123");
  EXPECT_EQ(rehearsals.due({}, 1), std::vector<bool>{true});
}

TEST(Rehearsals, WhereEqualBitsAreNotPromisedNoneIs) {
  RunOptions without;
  without.rehearse = 0;
  EXPECT_EQ(twice(Rehearsals(without, 1), 100), "");
  RunOptions warns;
  warns.deterministic = Deterministic::kWarn;
  EXPECT_EQ(twice(Rehearsals(warns, 1), 100), "");
}

}  // namespace
}  // namespace lockstep::training

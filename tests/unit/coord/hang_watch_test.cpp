#include <gtest/gtest.h>

#include "coord/deadlines.h"

namespace lockstep::coord {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

// One worker, seen every tenth of a second.
class Watched {
 public:
  explicit Watched(std::uint64_t first = 30 * kSecond) : first_(first) {}
  // It stays in `phase` for so long, with or without progress. False: taken for hung on the way.
  bool stays(Phase phase, double seconds, bool progress = false, bool committed = true) {
    WorkerProgress worker;
    worker.uid = WorkerUid(1);
    worker.phase = phase;
    ++progress_;
    for (int i = 0; i < static_cast<int>(seconds * 10); ++i) {
      if (progress) ++progress_;
      worker.progress = progress_;
      worker.ran_ns = static_cast<std::uint64_t>(ran_ += ran * 1e8);
      worker.starved_ns = static_cast<std::uint64_t>(starved_ += starved * 1e8);
      watch_.observe(worker, committed, /*awaited=*/true, now_);
      if (excused) watch_.excuse(worker.uid, now_);
      if (watch_.hung(now_, [this](WorkerUid) { return counts; })) return false;
      now_ += kSecond / 10;
    }
    return true;
  }
  bool counts = true, excused = false;
  double ran = 0, starved = 0;  // the parts of the time in which it has a CPU, and has none

 private:
  std::uint64_t first_;
  HangWatch watch_{5 * kSecond, first_, 60 * kSecond};
  std::uint64_t now_ = kSecond, progress_ = 0;
  double ran_ = 0, starved_ = 0;
};

TEST(HangWatch, BeforeTheFirstCommitAPhaseHasLonger) {
  Watched worker;
  EXPECT_TRUE(worker.stays(Phase::kForward, 29, false, /*committed=*/false));
  EXPECT_FALSE(Watched().stays(Phase::kForward, 31, false, false));
}

TEST(HangWatch, BeforeTheFirstCommitWorkIsProgressToo) {
  const auto working = [](Watched worker, double seconds, bool committed = false) {
    worker.ran = 1;
    return worker.stays(Phase::kForward, seconds, false, committed);
  };
  EXPECT_TRUE(working(Watched(), 250)) << "a large model on a slow machine";
  EXPECT_FALSE(working(Watched(), 301)) << "a loop that never ends";
  EXPECT_FALSE(working(Watched(), 6, /*committed=*/true)) << "a share of later steps";
  EXPECT_FALSE(working(Watched(5 * kSecond), 6)) << "--hang-timeout 5";
}

TEST(HangWatch, WhoWaitsForSomebodyElseIsNotHungAndSetsNoMeasure) {
  Watched worker;
  worker.excused = true;
  EXPECT_TRUE(worker.stays(Phase::kForward, 100));
  worker.excused = false;
  EXPECT_TRUE(worker.stays(Phase::kBackward, 4));
  EXPECT_FALSE(worker.stays(Phase::kForward, 6)) << "ten times a pause of others";
}

TEST(HangWatch, WhoGetsNoCpuIsNotHungAndSetsNoMeasure) {
  Watched worker;
  worker.starved = 0.9;
  EXPECT_TRUE(worker.stays(Phase::kForward, 45)) << "4.5 s of its own";
  EXPECT_FALSE(worker.stays(Phase::kBackward, 60)) << "it runs, and gets nowhere";
  worker.starved = 0;
  EXPECT_TRUE(worker.stays(Phase::kData, 4));
  Watched other;
  other.starved = 1;
  EXPECT_TRUE(other.stays(Phase::kForward, 100));
  other.starved = 0;
  EXPECT_TRUE(other.stays(Phase::kBackward, 4));
  EXPECT_FALSE(other.stays(Phase::kForward, 6)) << "ten times a wait for a CPU";
}

TEST(HangWatch, AfterwardsAStepsPhasesHaveTheFloor) {
  EXPECT_TRUE(Watched().stays(Phase::kForward, 4.5));
  EXPECT_FALSE(Watched().stays(Phase::kForward, 6));
}

// A commit says nothing of the epoch's end.
TEST(HangWatch, TheFirstEvaluationHasLongerToo) {
  Watched worker;
  EXPECT_TRUE(worker.stays(Phase::kEvaluate, 29));
  EXPECT_TRUE(worker.stays(Phase::kIdle, 1));
  EXPECT_TRUE(worker.stays(Phase::kEvaluate, 200)) << "ten times the longest";
  EXPECT_FALSE(Watched().stays(Phase::kEvaluate, 31));
}

TEST(HangWatch, WhatWasSeenOnceIsWaitedForTenTimesAsLong) {
  Watched worker;
  EXPECT_TRUE(worker.stays(Phase::kBackward, 4));
  EXPECT_TRUE(worker.stays(Phase::kIdle, 1));
  EXPECT_TRUE(worker.stays(Phase::kBackward, 39));
  EXPECT_FALSE(Watched().stays(Phase::kBackward, 39));
}

TEST(HangWatch, ProgressIsNoHangAndWaitingForPeersNeitherIs) {
  EXPECT_TRUE(Watched().stays(Phase::kBackward, 500, /*progress=*/true));
  EXPECT_TRUE(Watched().stays(Phase::kExchange, 5000));
}

TEST(HangWatch, WhoDoesNotCountHidesNobody) {
  Watched worker;
  worker.counts = false;
  EXPECT_TRUE(worker.stays(Phase::kForward, 60));
  worker.counts = true;
  EXPECT_FALSE(worker.stays(Phase::kForward, 601));
}

}  // namespace
}  // namespace lockstep::coord

#include "coord/hang_watch.h"

#include <gtest/gtest.h>

#include "unit/coord/times.h"

namespace lockstep::coord {
namespace {

constexpr std::uint64_t kMinute = 60 * kSecond;

WorkerProgress member(std::uint64_t uid, Phase phase = Phase::kIdle) {
  WorkerProgress seen;
  seen.uid = WorkerUid(uid);
  seen.phase = phase;
  return seen;
}

// One worker, seen every tenth of a second.
class Watched {
 public:
  explicit Watched(double strict_s = 0)
      : watch(static_cast<std::uint64_t>(strict_s * static_cast<double>(kSecond))) {}
  // It stands still in `phase` for so long. False: taken for hung on the way, and evicted.
  bool stands(Phase phase, double seconds, bool awaited = true) {
    seen_.phase = phase;
    ++seen_.progress;
    ++seen_.applied;
    return goes_on(seconds, awaited);
  }
  bool goes_on(double seconds, bool awaited = true) {
    for (int i = 0; i <= static_cast<int>(seconds * 10); ++i) {
      if (progress) ++seen_.progress;
      watch.observe(seen_, vitals_, awaited, now_);
      told += static_cast<int>(watch.to_tell().size());
      if (const auto hang = watch.hung()) {
        watch.evicted(*hang);
        return false;
      }
      now_ += kSecond / 10;
      vitals_.ran_ns += static_cast<std::uint64_t>(ran * 1e8);
      vitals_.excused_ns += static_cast<std::uint64_t>(excused * 1e8);
    }
    return true;
  }
  void be_away(double seconds) {
    now_ += static_cast<std::uint64_t>(seconds * 1e9);
    watch.skip_to(now_);
  }

  HangWatch watch;
  bool progress = false;
  double ran = 0,
         excused = 0;  // the parts of the time in which it has a CPU, and in which it cannot
  int told = 0;

 private:
  WorkerProgress seen_ = member(1);
  WorkerVitals vitals_{.uid = WorkerUid(1)};
  std::uint64_t now_ = kSecond;
};

constexpr Phase kAlone[] = {Phase::kIdle,      Phase::kData,     Phase::kForward,  Phase::kBackward,
                            Phase::kOptimizer, Phase::kSnapshot, Phase::kEvaluate, Phase::kHeal};

TEST(HangWatch, WhomNobodyAwaitsIsNeverHung) {
  for (const Phase phase : kAlone) EXPECT_TRUE(Watched().stands(phase, 100'000, false));
}

TEST(HangWatch, AnAwaitedOneHasTenMinutesInEachPhase) {
  for (const Phase phase : kAlone) {
    EXPECT_TRUE(Watched().stands(phase, 599)) << to_string(phase);
    EXPECT_FALSE(Watched().stands(phase, 601)) << to_string(phase);
  }
}

TEST(HangWatch, WaitingForOthersAndForTheEndIsNoStandstill) {
  for (const Phase phase : {Phase::kExchange, Phase::kDone}) {
    EXPECT_TRUE(Watched().stands(phase, 100'000));
    EXPECT_TRUE(Watched(1).stands(phase, 100'000));
  }
}

TEST(HangWatch, OnlyTheTimeInWhichOthersWaitCounts) {
  Watched worker;
  EXPECT_TRUE(worker.stands(Phase::kForward, 3000, /*awaited=*/false));
  EXPECT_TRUE(worker.goes_on(300));
  EXPECT_TRUE(worker.goes_on(3000, false));
  EXPECT_TRUE(worker.goes_on(290)) << "590 s in all";
  EXPECT_FALSE(worker.goes_on(20));
}

TEST(HangWatch, ProgressEndsAStandstill) {
  Watched worker;
  worker.progress = true;
  EXPECT_TRUE(worker.stands(Phase::kBackward, 5000));
  EXPECT_FALSE(worker.stands(Phase::kIdle, 700)) << "asking for the next step is none";
}

TEST(HangWatch, WhatEndedByItselfIsWaitedForTenTimesAsLong) {
  Watched worker;
  EXPECT_TRUE(worker.stands(Phase::kForward, 90, /*awaited=*/false));
  EXPECT_TRUE(worker.stands(Phase::kBackward, 1));
  EXPECT_NEAR(static_cast<double>(worker.watch.limit(Phase::kForward)), 900e9, 1e9);
  EXPECT_TRUE(worker.stands(Phase::kForward, 899));
  EXPECT_FALSE(worker.stands(Phase::kBackward, 601)) << "that is another phase";
}

TEST(HangWatch, WhatAnEvictionCutShortHasTwiceAsLongTheNextTime) {
  Watched worker;
  for (const double minutes : {10, 20, 40}) {
    EXPECT_TRUE(worker.stands(Phase::kForward, 60 * minutes - 10));
    EXPECT_FALSE(worker.goes_on(20)) << minutes;
  }
  EXPECT_EQ(worker.watch.limit(Phase::kBackward), HangWatch::kLeast);
}

TEST(HangWatch, AnEvictionGivesTheOthersTheirTimeAnew) {
  HangWatch watch(0);
  WorkerProgress first = member(1, Phase::kForward), second = member(2, Phase::kBackward);
  std::uint64_t now = kSecond;
  const auto pass = [&](std::uint64_t span) {
    for (const std::uint64_t end = now + span; now < end; now += kSecond)
      for (const WorkerProgress& seen : {first, second}) watch.observe(seen, {}, true, now);
  };
  pass(602 * kSecond);
  const auto hang = watch.hung();
  ASSERT_TRUE(hang);
  watch.evicted(*hang);
  first.uid = WorkerUid(3);  // its replacement
  pass(9 * kMinute);
  EXPECT_FALSE(watch.hung());
}

TEST(HangWatch, ExcusedTimeCountsForNothing) {
  for (const double strict : {0.0, 5.0}) {
    Watched worker(strict);
    worker.excused = 1;
    EXPECT_TRUE(worker.stands(Phase::kForward, 100'000)) << "it was stopped, say";
    EXPECT_EQ(worker.told, 0);
    worker.excused = 0;
    EXPECT_TRUE(worker.stands(Phase::kBackward, 1));
    EXPECT_EQ(worker.watch.limit(Phase::kForward), strict == 0 ? HangWatch::kLeast : 5 * kSecond);
  }
  Watched half;
  half.excused = 0.5;
  EXPECT_TRUE(half.stands(Phase::kForward, 1190));
  EXPECT_FALSE(half.goes_on(20));
}

TEST(HangWatch, TheAgentsOwnAbsenceCountsForNothing) {
  Watched worker(5);
  EXPECT_TRUE(worker.stands(Phase::kForward, 4));
  worker.be_away(1000);
  EXPECT_TRUE(worker.goes_on(0.5)) << "4.5 s";
  EXPECT_FALSE(worker.goes_on(1));
}

TEST(HangWatch, StrictHoldsForEachPhaseAwaitedOrNotAndLearnsNothing) {
  for (const Phase phase : kAlone) {
    Watched worker(1);
    EXPECT_TRUE(worker.stands(phase, 0.8, /*awaited=*/false)) << to_string(phase);
    EXPECT_FALSE(worker.stands(phase, 1.3, false)) << to_string(phase);
    EXPECT_FALSE(worker.stands(phase, 1.3, true)) << to_string(phase);
    EXPECT_TRUE(worker.watch.learnt().empty());
  }
}

TEST(HangWatch, TellsAtThirtySecondsAndAtEachDoubling) {
  for (const bool awaited : {false, true}) {
    Watched worker;
    EXPECT_TRUE(worker.stands(Phase::kForward, 29.5, awaited));
    EXPECT_EQ(worker.told, 0);
    EXPECT_TRUE(worker.goes_on(1, awaited));
    EXPECT_EQ(worker.told, 1);
    EXPECT_TRUE(worker.goes_on(28, awaited));
    EXPECT_EQ(worker.told, 1);
    EXPECT_TRUE(worker.goes_on(5, awaited));
    EXPECT_EQ(worker.told, 2);
    EXPECT_TRUE(worker.goes_on(440, awaited));  // 120, 240, 480
    EXPECT_EQ(worker.told, 5);
  }
}

// A program whose steps all take a minute is not told of at each.
TEST(HangWatch, WhatIsUsualIsNoNews) {
  Watched worker;
  EXPECT_TRUE(worker.stands(Phase::kForward, 62));
  EXPECT_EQ(worker.told, 2);
  for (int step = 0; step < 5; ++step) {
    EXPECT_TRUE(worker.stands(Phase::kBackward, 1));
    EXPECT_TRUE(worker.stands(Phase::kForward, 70));
  }
  EXPECT_EQ(worker.told, 2);
  EXPECT_TRUE(worker.stands(Phase::kForward, 150));
  EXPECT_EQ(worker.told, 3);
}

TEST(HangWatch, SaysHowMuchOfACpuItHad) {
  HangWatch watch(0);
  const WorkerProgress seen = member(1, Phase::kForward);
  WorkerVitals vitals{.uid = WorkerUid(1)};
  for (std::uint64_t s = 1; s <= 31; ++s) {
    watch.observe(seen, vitals, true, s * kSecond);
    vitals.ran_ns += kSecond * 3 / 2;
  }
  const auto told = watch.to_tell();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_NEAR(told[0].ran, 1.5, 1e-6);
  EXPECT_TRUE(told[0].awaited);
}

// Just now whoever waits may have no CPU.
TEST(HangWatch, SaysWhetherOthersHaveWaitedForMostOfIt) {
  for (const bool awaited : {false, true}) {
    HangWatch watch(0);
    for (std::uint64_t s = 1; s <= 31; ++s)
      watch.observe(member(1, Phase::kForward), {.uid = WorkerUid(1)}, s < 31 ? awaited : !awaited,
                    s * kSecond);
    const auto told = watch.to_tell();
    ASSERT_EQ(told.size(), 1U);
    EXPECT_EQ(told[0].awaited, awaited);
  }
}

TEST(HangWatch, WhatWasLearntIsKnownInTheNextLaunch) {
  Watched worker;
  EXPECT_TRUE(worker.stands(Phase::kData, 59));
  EXPECT_TRUE(worker.stands(Phase::kBackward, 1));
  EXPECT_TRUE(worker.watch.learnt().empty()) << "it changes no limit";
  EXPECT_TRUE(worker.stands(Phase::kData, 90));
  EXPECT_FALSE(worker.stands(Phase::kForward, 700));
  ASSERT_EQ(worker.watch.learnt().size(), 2U);

  HangWatch next(0);
  next.remember(worker.watch.learnt());
  EXPECT_EQ(next.learnt(), worker.watch.learnt());
  for (const Phase phase : kAlone)
    EXPECT_NEAR(static_cast<double>(next.limit(phase)),
                static_cast<double>(worker.watch.limit(phase)), 10)
        << to_string(phase);

  HangWatch strict(5 * kSecond);
  strict.remember(worker.watch.learnt());
  EXPECT_EQ(strict.limit(Phase::kData), 5 * kSecond);
}

}  // namespace
}  // namespace lockstep::coord

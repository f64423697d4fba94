// Who comes into a group that runs: its troubles are its own, and it waits as long as it must.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "unit/coord/driven_group.h"

namespace lockstep::coord {
namespace {

using testing::HasSubstr;

TEST(Newcomers, TroubleOfTheirOwnCostsNobodyElse) {
  for (const bool tells : {true, false}) {
    DrivenGroup group({.workers = 3, .timing = {}});
    group.start();
    group.exit(WorkerUid(2), kKilled);
    const auto spawn = group.take_spawn();
    ASSERT_TRUE(spawn);
    group.greet(spawn->uid);
    if (tells) group.feed(event::Failed{spawn->uid, {ErrorKind::kBadData, "the data are gone"}});
    group.exit(spawn->uid, {65, 0});
    EXPECT_FALSE(group.take_spawn());
    EXPECT_EQ(group.status().world_size, 2);
    EXPECT_THAT(group.printed, HasSubstr("died (exit 65); the others go on without it"));
    EXPECT_EQ(group.printed.find("the data are gone") != std::string::npos, tells);
    EXPECT_EQ(group.printed.find("the data are gone"), group.printed.rfind("the data are gone"));
  }
}

TEST(Newcomers, AMembersBadDataStopAll) {
  DrivenGroup group({.workers = 3, .timing = {}});
  group.start();
  group.feed(event::Failed{WorkerUid(2), {ErrorKind::kBadData, "the data are gone"}});
  EXPECT_EQ(group.status().state, "stopping");
}

// Newcomers that end before they are ready, while the members are in one long step: the incident
// is open all the time. Says how many there were in a minute.
int tries_in_a_minute(int max_replacements, ExitStatus end, std::string& printed) {
  DrivenGroup group({.workers = 3, .max_replacements = max_replacements, .timing = {}});
  group.start();
  group.exit(WorkerUid(3), kKilled);
  int tries = 0;
  group.pass(60 * kSecond, [&] {
    for (auto spawn = group.take_spawn(); spawn && tries < 100; spawn = group.take_spawn()) {
      ++tries;
      group.greet(spawn->uid);
      group.exit(spawn->uid, end);
    }
  });
  EXPECT_EQ(group.status().world_size, 2);
  EXPECT_EQ(group.status().target_world_size, 2);
  printed = group.printed;
  return tries;
}

TEST(Newcomers, ThatEndBeforeTheyAreReadyCostAReplacementEach) {
  for (const ExitStatus end : {kKilled, ExitStatus{-1, SIGSEGV}, ExitStatus{1, 0}}) {
    std::string printed;
    EXPECT_EQ(tries_in_a_minute(4, end, printed), 4);
    EXPECT_THAT(printed, HasSubstr("go on without it: --max-replacements 4 is spent"));
  }
}

TEST(Newcomers, ThatEndBeforeTheyAreReadyAreNotTriedForEver) {
  for (const ExitStatus end : {kKilled, ExitStatus{-1, SIGSEGV}, ExitStatus{1, 0}}) {
    std::string printed;
    EXPECT_EQ(tries_in_a_minute(1000, end, printed), 10);
    EXPECT_THAT(printed, HasSubstr("go on without it: 10 tries in a row have failed"));
  }
}

// Worker 3 is dead, and another one has been asked for in its place.
class Joining : public testing::Test {
 protected:
  Joining() : group_({.workers = 3, .timing = {}}) {
    group_.start();
    group_.exit(WorkerUid(3), kKilled);
    newcomer_ = group_.take_spawn()->uid;
    group_.greet(newcomer_);
    group_.workers[newcomer_].phase = Phase::kIdle;
  }
  // The members go through a long evaluation, batch by batch.
  void evaluate(std::uint64_t time) {
    group_.pass(time, [&] {
      for (const std::uint64_t uid : {1, 2}) {
        group_.workers[WorkerUid(uid)].phase = Phase::kEvaluate;
        ++group_.workers[WorkerUid(uid)].progress;
      }
    });
  }

  DrivenGroup group_;
  WorkerUid newcomer_{0};
};

// Members wait for it at each copy.
TEST_F(Joining, ThatNeverLoadsItIsServedLessAndLessOften) {
  group_.feed(event::Ready{newcomer_, Txn(0), 0, {}});
  std::vector<std::uint64_t> asked;
  std::uint64_t txn = 10;
  group_.pass(60 * kSecond, [&] {
    if (const auto donor = group_.take<action::NameDonor>()) asked.push_back(group_.now);
    for (auto& [uid, seen] : group_.workers)
      if (uid != newcomer_) seen.current_txn = Txn(txn);
    group_.be_at(Txn(++txn));
  });
  ASSERT_GT(asked.size(), 8U);
  EXPECT_LT(asked.size(), 20U);
  EXPECT_LE(asked[1] - asked[0], 100 * kMillisecond);
  for (std::size_t i = 2; i < asked.size(); ++i)
    EXPECT_GE(asked[i] - asked[i - 1],
              std::min<std::uint64_t>(50ULL << (i - 1), 6400) * kMillisecond);
}

TEST_F(Joining, ThatIsReadyItWaitsForALongEvaluation) {
  group_.feed(event::Ready{newcomer_, Txn(0), 0, {}});
  evaluate(7200 * kSecond);
  EXPECT_FALSE(group_.killed(newcomer_)) << group_.printed;
}

TEST_F(Joining, ThatDoesNotBecomeReadyEndsAfterItsTime) {
  evaluate(1799 * kSecond);
  EXPECT_FALSE(group_.killed(newcomer_));
  evaluate(2 * kSecond);
  EXPECT_TRUE(group_.killed(newcomer_));
  group_.exit(newcomer_, kKilled);
  EXPECT_THAT(group_.printed, HasSubstr("not ready within 1800.0 s"));
}

}  // namespace
}  // namespace lockstep::coord

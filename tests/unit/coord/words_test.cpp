// What the coordinator says of ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/coord/driven_group.h"

namespace lockstep::coord {
namespace {

using testing::HasSubstr;

// A loop of its own whose ranks have unequal work: who ended well is named, and not as dead.
TEST(Words, OfARankThatEndsBeforeTheOthers) {
  DrivenGroup group({.workers = 2, .timing = {}});
  group.elastic = false;
  group.start();
  group.exit(WorkerUid(2), {0, 0});
  group.feed(event::Failed{WorkerUid(1), {ErrorKind::kPeerLost, "the other one has ended"}});
  group.exit(WorkerUid(1), {1, 0});
  EXPECT_THAT(
      group.printed,
      HasSubstr(
          "rank 0 (worker 1) died (exit 1); before it, with exit 0, ended rank 1 (worker 2)"));
  // Told once, and kept in the incident.
  EXPECT_EQ(group.printed.find("the other one"), group.printed.rfind("the other one"));
  const auto record = group.take<action::RecordIncident>();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->incident.victims[0].cause, "exit 1");
  EXPECT_EQ(record->incident.victims[0].error, "the other one has ended");
}

TEST(Words, OfAMemberThatEndsWellButTooEarly) {
  DrivenGroup group({.workers = 3, .timing = {}});
  group.start();
  group.exit(WorkerUid(2), {0, 0});
  EXPECT_THAT(group.printed,
              HasSubstr("rank 1 (worker 2) left before the run's end (exit 0 in epoch 0, step 0)"));
}

TEST(Words, OfWhatWillBeDoneAboutFailures) {
  DrivenGroup group({.workers = 3, .max_restarts = 2, .timing = {}});
  group.start();
  EXPECT_EQ(group.policies,
            "3 workers; replacements of those that die: 10 (--max-replacements); restarts of all: "
            "2 (--max-restarts)\n");
  DrivenGroup fixed({.workers = 2, .timing = {}});
  fixed.elastic = false;
  fixed.start();
  EXPECT_EQ(fixed.policies,
            "2 workers; when one dies, all are stopped; restarts of all: 0 (--max-restarts)\n");
}

// Of three workers in the same step of a program that fails there.
class SameEnd : public testing::Test {
 protected:
  SameEnd() : group({.workers = 3, .timing = {}}) {
    group.start();
    for (auto& [uid, seen] : group.workers) {
      seen.phase = Phase::kForward;
      seen.epoch = 1;
      seen.epoch_step = 7;
      seen.item = 4;
    }
  }
  void fail_all(ExitStatus status, const std::string& words) {
    for (const std::uint64_t uid : {2, 1, 3}) {
      if (!words.empty())
        group.feed(event::Failed{
            WorkerUid(uid),
            {ErrorKind::kInternal, "virtual worker " + std::to_string(uid) + ": " + words}});
      group.exit(WorkerUid(uid), status);
    }
  }
  DrivenGroup group;
};

TEST_F(SameEnd, AnErrorIsToldOnce) {
  fail_all({1, 0}, "no such class");
  EXPECT_EQ(group.printed,
            "rank 1 (worker 2): virtual worker 2: no such class\n"
            "3 workers ended by this error in one step; --max-restarts 0 allows no "
            "restart from a checkpoint\n");
}

TEST(Words, OfTheOnlyWorkersError) {
  DrivenGroup group({.workers = 1, .timing = {}});
  group.start();
  group.feed(event::Failed{WorkerUid(1), {ErrorKind::kInternal, "no such class"}});
  group.exit(WorkerUid(1), {1, 0});
  EXPECT_EQ(group.printed,
            "rank 0 (worker 1): no such class\n"
            "the only worker ended by this error; --max-restarts 0 allows no "
            "restart from a checkpoint\n");
}

TEST_F(SameEnd, OtherErrorsAreToldToo) {
  group.feed(event::Failed{WorkerUid(2), {ErrorKind::kInternal, "virtual worker 2: one"}});
  group.feed(event::Failed{WorkerUid(1), {ErrorKind::kInternal, "virtual worker 1: other"}});
  EXPECT_THAT(group.printed, HasSubstr("one"));
  EXPECT_THAT(group.printed, HasSubstr("other"));
}

TEST_F(SameEnd, ACrashIsToldWithItsPlace) {
  fail_all({-1, SIGSEGV}, "");
  EXPECT_EQ(group.printed,
            "rank 1 (worker 2) died (SIGSEGV) while computing virtual worker 4 of epoch 1, step 7, "
            "phase forward\n"
            "a share of one step crashed 3 workers; --max-restarts 0 allows no "
            "restart from a checkpoint\n");
}

TEST_F(SameEnd, WhoJustReturnsIsToldHowToEndARun) {
  fail_all({0, 0}, "");
  EXPECT_THAT(group.printed, HasSubstr("left before the run's end (exit 0 in epoch 1, step 7)"));
  EXPECT_THAT(group.printed, HasSubstr("Share::end_run()"));
  EXPECT_THAT(group.printed, testing::Not(HasSubstr("replacement")));
}

TEST_F(SameEnd, OfOneAmongOthersItIsToldWhatMendsIt) {
  group.exit(WorkerUid(2), {-1, SIGSEGV});
  EXPECT_THAT(group.printed, testing::Not(HasSubstr("replacement")));
  for (auto& [uid, seen] : group.workers) seen.applied = 1;
  group.observe();
  EXPECT_THAT(group.printed, HasSubstr("rank 1 (worker 2): a replacement is started (9 of 10"));
}

TEST(Words, ProgramsWithoutCheckpointsOfOursAreAdvisedOfNone) {
  for (const bool plain : {true, false}) {
    DrivenGroup group(fixed_head(plain, 1));
    group.elastic = false;
    if (plain)
      group.feed(event::Forked{group.take_spawn()->uid, 100});
    else
      group.start();
    group.exit(WorkerUid(1), kKilled);
    EXPECT_EQ(group.exit_code, 75);
    EXPECT_THAT(group.printed, testing::Not(HasSubstr("checkpoint")));
  }
}

}  // namespace
}  // namespace lockstep::coord

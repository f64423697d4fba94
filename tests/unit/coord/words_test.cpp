// What the coordinator says of ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/coord/driven_group.h"

namespace lockstep::coord {
namespace {

using testing::HasSubstr;

constexpr ExitStatus kKilled{-1, SIGKILL};

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
  EXPECT_THAT(group.printed, HasSubstr("rank 1 (worker 2) ended while the others go on (exit 0)"));
}

TEST(Words, ProgramsWithoutCheckpointsOfOursAreAdvisedOfNone) {
  for (const bool plain : {true, false}) {
    DrivenGroup group({.workers = 1, .zygote = !plain, .plain = plain, .timing = {}});
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

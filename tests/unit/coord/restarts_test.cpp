// How often the group starts again: --max-restarts, and which of them would be in vain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/coord/driven_group.h"

namespace lockstep::coord {
namespace {

using testing::HasSubstr;

// All workers end so, and a new group comes if it may; the number of restarts so far.
int end_all(DrivenGroup& group, ExitStatus status, const std::string& error = "") {
  for (const auto& [uid, seen] : std::map(group.workers)) {
    if (!error.empty()) group.feed(event::Failed{uid, {ErrorKind::kInternal, error}});
    group.exit(uid, status);
  }
  if (!group.exit_code) group.start();
  return group.status().restarts;
}

void commit(DrivenGroup& group, std::uint64_t txn) {
  for (auto& [uid, seen] : group.workers) {
    seen.current_txn = Txn(txn);
    seen.applied = txn;
  }
  group.observe();
}

TEST(Restarts, EachCountsAsProgressWithoutTransactions) {
  for (const bool plain : {true, false}) {
    DrivenGroup group(fixed_head(plain, 1, 10));
    group.elastic = false;
    group.start();
    for (int i = 1; i <= 10; ++i) {
      if (plain)
        for (auto spawn = group.take_spawn(); spawn; spawn = group.take_spawn())
          group.greet(spawn->uid);
      ASSERT_EQ(end_all(group, {1, 0}, plain ? "" : "it broke"), i) << group.printed;
      ASSERT_FALSE(group.exit_code) << group.printed;
    }
    if (plain)
      for (auto spawn = group.take_spawn(); spawn; spawn = group.take_spawn())
        group.greet(spawn->uid);
    end_all(group, {1, 0});
    EXPECT_EQ(group.exit_code, 1);
    EXPECT_THAT(group.printed, HasSubstr("no restart is left: 10 of 10 used (--max-restarts"));
  }
}

TEST(Restarts, TheSameErrorInTheSameTransactionTwiceIsTheLast) {
  DrivenGroup group({.workers = 2, .max_restarts = 10, .timing = {}});
  group.start();
  commit(group, 7);
  EXPECT_EQ(end_all(group, {1, 0}, "virtual worker 0: more than 1 value per channel"), 1);
  commit(group, 7);
  end_all(group, {1, 0}, "virtual worker 5: more than 1 value per channel");  // whoever met it
  EXPECT_EQ(group.exit_code, 1);
  EXPECT_THAT(group.printed,
              HasSubstr("the same error ended the group in the same transaction (7)"));
}

TEST(Restarts, SoDoesTheSameSignalOfTheProgramsOwn) {
  DrivenGroup group({.workers = 1, .max_restarts = 10, .timing = {}});
  group.start();
  commit(group, 3);
  EXPECT_EQ(end_all(group, {-1, SIGSEGV}), 1);
  commit(group, 3);
  end_all(group, {-1, SIGSEGV});
  EXPECT_EQ(group.exit_code, 1);
}

TEST(Restarts, AnotherErrorOrTransactionOrADeathFromOutsideIsNotTheSame) {
  DrivenGroup group({.workers = 1, .max_restarts = 10, .timing = {}});
  group.start();
  int restarts = 0;
  for (const std::uint64_t txn : {3, 5, 9}) {
    commit(group, txn);
    ASSERT_EQ(end_all(group, {1, 0}, "it broke"), ++restarts) << group.printed;
    commit(group, txn);
    ASSERT_EQ(end_all(group, {1, 0}, "it broke otherwise"), ++restarts) << group.printed;
    commit(group, txn);
    ASSERT_EQ(end_all(group, {-1, SIGKILL}), ++restarts) << group.printed;
  }
  commit(group, 5);
  end_all(group, {1, 0}, "it broke");  // met before
  EXPECT_EQ(group.exit_code, 1);
}

TEST(Restarts, ThreeKillsInOneTransactionAreResumable) {
  DrivenGroup group({.workers = 1, .max_restarts = 10, .timing = {}});
  group.start();
  for (int i = 0; i < 4 && !group.exit_code; ++i) {
    commit(group, 3);
    end_all(group, {-1, SIGKILL});
  }
  EXPECT_EQ(group.exit_code, 75);
  EXPECT_THAT(group.printed, HasSubstr("3 restarts in a row got no further than transaction 3"));
}

// Of four workers with two shares each three crash in turn, and the heirs' shares with them.
TEST(Restarts, AShareThatCrashesAllItsOwnersIsHopeless) {
  for (const bool own : {true, false}) {
    DrivenGroup group({.workers = 4, .timing = {}});
    group.start();
    for (const std::uint64_t uid : {2, 3, 4}) {
      WorkerProgress& seen = group.workers[WorkerUid(uid)];
      seen.phase = Phase::kBackward;
      // Worker 1's: what a rehearsal computes once more is none of the shares that it owns.
      seen.item = own ? 3 : 0;
      group.exit(seen.uid, {-1, SIGSEGV});
    }
    EXPECT_EQ(group.printed.find("a share of one step crashed 3 workers") != std::string::npos, own)
        << group.printed;
  }
}

// As if nobody were left who holds the state: a checkpoint goes on, now or with the same command.
TEST(Restarts, AMemberThatOnlyACheckpointHelpsStartsTheGroupAgain) {
  for (const int allowed : {0, 1}) {
    DrivenGroup group({.workers = 2, .max_restarts = allowed, .timing = {}});
    group.start();
    commit(group, 7);
    group.feed(event::Failed{WorkerUid(2), {ErrorKind::kResumable, "nobody is left who knows"}});
    EXPECT_EQ(group.printed.find("rank 1 (worker 2): nobody is left who knows; "), 0U)
        << group.printed;
    EXPECT_EQ(group.status().restarts, allowed) << group.printed;
    EXPECT_TRUE(group.killed(WorkerUid(1)) && group.killed(WorkerUid(2)));
    group.exit(WorkerUid(2), {75, 0});
    group.exit(WorkerUid(1), {-1, SIGKILL});
    EXPECT_EQ(group.exit_code, allowed == 0 ? std::optional(75) : std::nullopt) << group.printed;
  }
}

}  // namespace
}  // namespace lockstep::coord

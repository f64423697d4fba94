// The time limit, as the coordinator sees it.
#include <gtest/gtest.h>

#include "unit/coord/driven_group.h"

namespace lockstep::coord {
namespace {

class TimeLimit : public testing::Test {
 protected:
  // The newest proposal says that the time is up.
  bool is_up() {
    while (const auto proposal = group_.take<action::WriteProposal>()) last_ = proposal->wish;
    return last_ && (last_->flags & kTimeIsUp) != 0;
  }
  void table(std::uint64_t stop) {
    Table named = *last_;
    named.txn = Txn(++txn_);
    named.flags = kNone;
    named.stop_after_step = stop;
    group_.feed(event::Progress{{}, {named}});
  }

  DrivenGroup group_{{.workers = 2, .max_restarts = 1, .max_replacements = 0, .timing = {}}};
  std::optional<Table> last_;
  std::uint64_t txn_ = 0;
};

TEST_F(TimeLimit, IsOfTheWholeRun) {
  group_.run_time = {.ran = 3 * kSecond, .limit = 5 * kSecond};
  group_.start();
  EXPECT_EQ(group_.take<action::WriteTable>()->ran_ns, 3 * kSecond);
  group_.pass(1900 * kMillisecond);
  EXPECT_FALSE(is_up());
  group_.pass(200 * kMillisecond);
  EXPECT_TRUE(is_up());
  EXPECT_NE(group_.printed.find("time limit is reached"), std::string::npos);
}

TEST_F(TimeLimit, WithoutOneThereIsNone) {
  group_.run_time = {.ran = 3 * kSecond};
  group_.start();
  group_.pass(10 * kSecond);
  EXPECT_FALSE(is_up());
}

TEST_F(TimeLimit, OneThatIsUsedUpStopsAtOnce) {
  group_.run_time = {.ran = 9 * kSecond, .limit = 5 * kSecond};
  group_.start();
  group_.pass(20 * kMillisecond);
  EXPECT_TRUE(is_up());
}

TEST_F(TimeLimit, TheStepThatATableNamesIsRecordedOnce) {
  group_.run_time = {.limit = 5 * kSecond};
  group_.start();
  group_.pass(6 * kSecond);
  ASSERT_TRUE(is_up());
  EXPECT_FALSE(group_.take<action::RecordStop>());
  table(41);
  table(41);
  const auto record = group_.take<action::RecordStop>();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->stop.stop_after_step, 41U);
  EXPECT_EQ(record->stop.limit_s, 5);
  EXPECT_NEAR(record->stop.run_s, 6, 0.1);
  EXPECT_FALSE(group_.take<action::RecordStop>());
}

// What the workers of the next start have read counts; the time goes on, as recovery is part of it.
TEST_F(TimeLimit, IsRepeatedWhenTheGroupStartsAgain) {
  group_.run_time = {.limit = 5 * kSecond};
  group_.start();
  group_.pass(3 * kSecond);
  while (group_.take<action::WriteTable>()) {
  }
  const auto old = group_.workers;
  for (const auto& [uid, seen] : old) group_.exit(uid, kKilled);
  group_.run_time.stop_after_step = 17;
  group_.start();
  const auto first = group_.take<action::WriteTable>();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->table.stop_after_step, 17U);
  EXPECT_GE(first->ran_ns, 3 * kSecond);
  group_.pass(10 * kSecond);
  EXPECT_FALSE(is_up()) << "it is known already";
  EXPECT_FALSE(group_.take<action::RecordStop>());
}

}  // namespace
}  // namespace lockstep::coord

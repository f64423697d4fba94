// Workers that come by themselves: their places wait, and nobody starts them.
#include <gtest/gtest.h>

#include "unit/coord/driven_group.h"

namespace lockstep::coord {
namespace {

constexpr ExitStatus kUnknown{};

class AttachedGroup : public testing::Test {
 protected:
  static Config config() {
    Config config;
    config.workers = 3;
    config.max_replacements = 0;
    config.zygote = false;
    config.attached = true;
    config.timing.first_table = 300 * kSecond;
    return config;
  }
  void expect_place(int rank, bool newcomer) {
    const auto place = group_.take_spawn();
    ASSERT_TRUE(place);
    EXPECT_EQ(place->rank, Rank(rank));
    EXPECT_EQ(place->world_size, 3);
    EXPECT_EQ(place->newcomer, newcomer);
    EXPECT_FALSE(group_.take_spawn());
  }
  void start() {
    group_.start();
    ASSERT_TRUE(group_.take<action::WriteTable>());
  }
  // The only End so far is for this worker.
  void expect_end(std::uint64_t uid, int code) {
    const auto end = group_.take<action::End>();
    ASSERT_TRUE(end);
    EXPECT_EQ(end->uid, WorkerUid(uid));
    EXPECT_EQ(end->code, code);
  }

  DrivenGroup group_{config()};
};

TEST_F(AttachedGroup, PlacesAreOpenAtOnceAndWaitForAllRanks) {
  for (int rank = 0; rank < 3; ++rank) {
    const auto place = group_.take_spawn();
    ASSERT_TRUE(place);
    EXPECT_EQ(place->rank, Rank(rank));
    if (rank == 2) break;
    group_.greet(place->uid);
    group_.feed(event::Ready{place->uid, Txn(0), 0});
  }
  group_.pass(299 * kSecond);
  EXPECT_FALSE(group_.exit_code);
  group_.pass(2 * kSecond);
  EXPECT_NE(group_.printed.find("of 3 nobody has come as rank 2"), std::string::npos)
      << group_.printed;
  expect_end(1, 69);
  expect_end(2, 69);
  for (const std::uint64_t uid : {1, 2}) group_.exit(WorkerUid(uid), kUnknown);
  EXPECT_EQ(group_.exit_code, 69);
}

TEST_F(AttachedGroup, WhereNothingIsLeftToRunNobodyIsWaitedFor) {
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(group_.take_spawn());
  group_.greet(WorkerUid(2));
  group_.feed(event::Ready{WorkerUid(2), Txn(9), 0, {}, /*complete=*/true});
  const auto table = group_.take<action::WriteTable>();
  ASSERT_TRUE(table);
  ASSERT_EQ(table->table.members.size(), 1U);
  EXPECT_EQ(table->table.members.front().uid, WorkerUid(2));
}

TEST_F(AttachedGroup, WhoHasComeIsWaitedForWhereNothingIsLeftToRunToo) {
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(group_.take_spawn());
  for (const std::uint64_t uid : {1, 2}) group_.greet(WorkerUid(uid));
  group_.feed(event::Ready{WorkerUid(2), Txn(9), 0, {}, /*complete=*/true});
  EXPECT_FALSE(group_.take<action::WriteTable>());
  group_.feed(event::Ready{WorkerUid(1), Txn(9), 0, {}, /*complete=*/true});
  EXPECT_TRUE(group_.take<action::WriteTable>());
}

TEST_F(AttachedGroup, ADeadOnesPlaceWaitsAtNoCost) {
  start();
  for (std::uint64_t uid = 2; uid < 20; ++uid) {
    group_.exit(WorkerUid(uid == 2 ? 2 : uid + 1), kUnknown);
    expect_place(1, true);
    EXPECT_EQ(group_.status().target_world_size, 3);
    group_.greet(WorkerUid(uid + 2));
  }
  EXPECT_NE(group_.printed.find("died (cause unknown); the others go on, and the same command "
                                "joins them again"),
            std::string::npos)
      << group_.printed;
  group_.pass(10 * kSecond);
  EXPECT_FALSE(group_.exit_code);
}

TEST_F(AttachedGroup, AWrongCommandAtTheStartEndsNobodyElse) {
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(group_.take_spawn());
  group_.greet(WorkerUid(1));
  group_.feed(event::Forked{WorkerUid(2), 100});
  group_.feed(event::Hello{WorkerUid(2)});
  group_.feed(event::Described{WorkerUid(2), 8, true,
                               Error{ErrorKind::kUsage, "it is not about to run the same"}});
  EXPECT_TRUE(group_.take<action::Refuse>());
  group_.exit(WorkerUid(2), {2, 0});
  expect_place(1, false);
  EXPECT_FALSE(group_.take<action::End>());
  // And one that fails by itself.
  group_.greet(WorkerUid(4));
  group_.feed(event::Failed{WorkerUid(4), {ErrorKind::kBadData, "no such folder"}});
  group_.exit(WorkerUid(4), {65, 0});
  expect_place(1, false);
  EXPECT_EQ(group_.printed,
            "rank 1 (worker 2) cannot take part: it is not about to run the same\n"
            "rank 1 (worker 4) cannot take part: no such folder\n");
  EXPECT_FALSE(group_.exit_code);
}

TEST_F(AttachedGroup, AnErrorOfAllIsToldOnceButAlwaysToRank0) {
  for (int rank = 0; rank < 3; ++rank) group_.greet(group_.take_spawn()->uid);
  for (const std::uint64_t uid : {3, 2, 1}) {
    group_.feed(event::Failed{WorkerUid(uid), {ErrorKind::kBadData, "no such folder"}});
    group_.exit(WorkerUid(uid), {65, 0});
  }
  EXPECT_EQ(group_.printed,
            "rank 2 (worker 3) cannot take part: no such folder\n"
            "rank 0 (worker 1) cannot take part: no such folder\n");
  EXPECT_EQ(group_.exit_code, 69);
}

TEST_F(AttachedGroup, EndsWithItsLastWorker) {
  for (int rank = 0; rank < 3; ++rank) ASSERT_TRUE(group_.take_spawn());
  group_.greet(WorkerUid(1));
  group_.exit(WorkerUid(1), kUnknown);
  EXPECT_EQ(group_.exit_code, 69);

  DrivenGroup running(config());
  running.start();
  for (const std::uint64_t uid : {1, 2, 3}) running.exit(WorkerUid(uid), kUnknown);
  EXPECT_EQ(running.exit_code, 75) << running.printed;

  DrivenGroup finished(config());
  finished.start();
  finished.feed(event::Finished{WorkerUid(1)});
  for (const std::uint64_t uid : {1, 2, 3}) finished.exit(WorkerUid(uid), kUnknown);
  EXPECT_EQ(finished.exit_code, 0);
  EXPECT_EQ(finished.printed,
            "3 workers, started by hand; the others go on without one that dies, and the same "
            "command joins them again\n");
}

TEST_F(AttachedGroup, NobodyAtAllIsNotWaitedForLong) {
  group_.pass(11 * kSecond);
  EXPECT_EQ(group_.exit_code, 69);
}

TEST_F(AttachedGroup, AFinalErrorOfOneIsToldToAll) {
  start();
  group_.feed(event::Failed{WorkerUid(2), {ErrorKind::kDisk, "the disk is full"}});
  expect_end(1, 1);
  expect_end(3, 1);
  EXPECT_FALSE(group_.take<action::End>());  // it ends by itself
  for (const std::uint64_t uid : {2, 1, 3}) group_.exit(WorkerUid(uid), kUnknown);
  EXPECT_EQ(group_.exit_code, 1);
}

TEST_F(AttachedGroup, OneThatIsStoppedAtTheStartIsWaitedFor) {
  for (int rank = 0; rank < 3; ++rank) group_.greet(group_.take_spawn()->uid);
  group_.feed(event::Stopped{WorkerUid(1)});
  group_.pass(30 * kSecond);
  EXPECT_FALSE(group_.killed(WorkerUid(1)));
  group_.feed(event::Continued{WorkerUid(1)});
  for (const std::uint64_t uid : {1, 2, 3}) group_.feed(event::Ready{WorkerUid(uid), Txn(0), 0});
  group_.feed(event::Stopped{WorkerUid(1)});
  group_.pass(2 * kSecond);
  EXPECT_TRUE(group_.killed(WorkerUid(1)));
}

TEST_F(AttachedGroup, DoesNotWaitForLongOnceItsStarterIsGone) {
  group_.pass(2 * kSecond);
  EXPECT_FALSE(group_.exit_code);
  group_.feed(event::StarterGone{});
  group_.pass(900 * kMillisecond);
  EXPECT_FALSE(group_.exit_code) << "others may be on their way";
  group_.pass(200 * kMillisecond);
  EXPECT_EQ(group_.exit_code, 69);
}

TEST_F(AttachedGroup, GoesOnWithoutItsStarterOnceSomebodyHasCome) {
  group_.greet(group_.take_spawn()->uid);
  group_.feed(event::StarterGone{});
  group_.pass(20 * kSecond);
  EXPECT_FALSE(group_.exit_code);
}

TEST_F(AttachedGroup, IsNotScaledBeyondItsRanks) {
  start();
  group_.feed(event::Scale{1, 4});
  auto reply = group_.take<action::Reply>();
  ASSERT_TRUE(reply);
  EXPECT_FALSE(reply->ok);
  EXPECT_NE(reply->text.find("started by hand for 3"), std::string::npos) << reply->text;
  group_.feed(event::Scale{2, 2});
  reply = group_.take<action::Reply>();
  ASSERT_TRUE(reply && reply->ok);
  group_.feed(event::Left{WorkerUid(3), Txn(1)});
  group_.exit(WorkerUid(3), kUnknown);
  EXPECT_FALSE(group_.take_spawn());
  group_.feed(event::Scale{3, 3});
  expect_place(2, true);
}

// A newcomer whose run is over, and one that is not wanted any more, are told so.
TEST_F(AttachedGroup, ANewcomerIsSentAwayWithAWord) {
  start();
  group_.exit(WorkerUid(2), kUnknown);
  group_.greet(group_.take_spawn()->uid);
  group_.feed(event::Finished{WorkerUid(1)});
  expect_end(4, 0);
}

}  // namespace
}  // namespace lockstep::coord

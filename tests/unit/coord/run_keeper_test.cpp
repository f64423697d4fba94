// A run's keeper alone: what a host's reports come to.
#include "coord/run_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace lockstep::coord {
namespace {

using testing::ElementsAre;

class RunKeeperTest : public testing::Test {
 protected:
  void hear(const Report& report) { keeper.hear(report); }
  // The host obeys as far as the run's keeper looks.
  void obey(const Order& order) {
    orders.push_back(order);
    if (const auto* first = std::get_if<order::FirstTable>(&order)) {
      for (const Member& member : first->table.members) {
        workers.at(member.uid).stage = Stage::kMember;
        workers.at(member.uid).first_txn = first->table.txn;
      }
    }
    if (const auto* leave = std::get_if<order::Leave>(&order))
      workers.at(leave->uid).stage = Stage::kLeaving;
    if (std::holds_alternative<order::Begin>(order)) workers.clear();
  }
  void ready(std::uint64_t uid, int seat, std::uint64_t state_hash = 0) {
    Worker worker;
    worker.uid = WorkerUid(uid);
    worker.slot = Slot(static_cast<std::uint32_t>(seat));
    worker.seat = seat;
    worker.stage = Stage::kReady;
    worker.state_hash = state_hash;
    workers.add(worker);
    hear(report::Ready{worker.uid});
  }
  void run() {
    facts.virtual_workers = 8;
    ready(1, 0);
    ready(2, 1);
    ready(3, 2);
    look();
    orders.clear();
  }
  void look() {
    keeper.look();
    keeper.write_tables();
  }
  void crash(std::uint64_t uid, std::vector<std::uint32_t> shares) {
    const Worker worker = *workers.take(WorkerUid(uid));
    hear(report::Lost{worker, Rank(0), {Cause::kOwnDoing, "exit 7"}, std::move(shares), {}});
  }
  template <class What>
  std::vector<What> ordered() const {
    std::vector<What> found;
    for (const Order& order : orders)
      if (const auto* what = std::get_if<What>(&order)) found.push_back(*what);
    return found;
  }
  std::vector<WorkerUid> proposed() const {
    std::vector<WorkerUid> uids;
    const auto wishes = ordered<order::Propose>();
    if (wishes.empty()) return uids;
    for (const Member& member : wishes.back().wish.members) uids.push_back(member.uid);
    return uids;
  }

  Config config{.workers = 3, .max_restarts = 1, .timing = {}};
  RunFacts facts;
  Workers workers;
  Turn turn{1'000'000'000, {}};
  std::vector<Order> orders;
  RunKeeper keeper{config, facts, workers, turn, [this](const Order& order) { obey(order); }};
};

TEST_F(RunKeeperTest, TheFirstTableHasAllThatWereAskedForByTheirSeats) {
  ready(1, 2);
  ready(2, 0);
  look();
  EXPECT_TRUE(orders.empty());
  ready(3, 1);
  look();
  ASSERT_EQ(ordered<order::FirstTable>().size(), 1U);
  const auto members = ordered<order::FirstTable>()[0].table.members;
  EXPECT_THAT(members, ElementsAre(Member{WorkerUid(2), Slot(0)}, Member{WorkerUid(3), Slot(1)},
                                   Member{WorkerUid(1), Slot(2)}));
  EXPECT_EQ(facts.group, Group::kRunning);
}

TEST_F(RunKeeperTest, StatesThatDifferStopTheRun) {
  ready(1, 0);
  ready(2, 1, 5);
  ready(3, 2);
  look();
  EXPECT_TRUE(ordered<order::FirstTable>().empty());
  EXPECT_EQ(ordered<order::Stop>().size(), 1U);
  EXPECT_EQ(facts.stop_code, exit_code(ErrorKind::kUsage));
}

TEST_F(RunKeeperTest, ADeathIsChargedAndProposesTheOthers) {
  run();
  crash(2, {3, 4, 5});
  look();
  EXPECT_THAT(proposed(), ElementsAre(WorkerUid(1), WorkerUid(3)));
  EXPECT_EQ(keeper.replacements_left(), config.max_replacements - 1);
  EXPECT_EQ(facts.target, 3U);
}

TEST_F(RunKeeperTest, WithoutRoomForAnotherWorkerTheOthersGoOn) {
  run();
  const Worker worker = *workers.take(WorkerUid(2));
  report::Outlook full;
  full.has_room = false;
  hear(report::Lost{worker, Rank(1), {Cause::kFromOutside, "SIGKILL"}, std::nullopt, full});
  EXPECT_EQ(keeper.replacements_left(), config.max_replacements);
  EXPECT_EQ(facts.target, 2U);
}

TEST_F(RunKeeperTest, AShareThatCrashesThreeOwnersStartsTheGroupAgainThenStopsTheRun) {
  run();
  ready(4, 3);
  workers.at(WorkerUid(4)).stage = Stage::kMember;
  workers.at(WorkerUid(4)).first_txn = Txn(0);
  crash(1, {0, 1});
  crash(2, {0, 2});
  look();
  EXPECT_EQ(facts.group, Group::kRunning);
  crash(3, {0, 3});
  look();
  EXPECT_EQ(facts.group, Group::kRestarting);
  EXPECT_EQ(ordered<order::Kill>().size(), 1U);
  workers.clear();
  look();
  EXPECT_EQ(ordered<order::Begin>().size(), 1U);
  EXPECT_EQ(facts.group, Group::kStarting);
  EXPECT_EQ(facts.restarts, 1);
  ready(5, 0);
  crash(5, {});
  EXPECT_EQ(facts.group, Group::kStopping);
}

TEST_F(RunKeeperTest, TheHighestRanksLeaveWhenFewerWorkersAreWanted) {
  run();
  keeper.on(event::Scale{1, 2});
  ASSERT_EQ(ordered<order::Leave>().size(), 1U);
  EXPECT_EQ(ordered<order::Leave>()[0].uid, WorkerUid(3));
  look();
  EXPECT_THAT(proposed(), ElementsAre(WorkerUid(1), WorkerUid(2)));
}

TEST_F(RunKeeperTest, AStopInOrderIsProposedUntilItsTimeIsOver) {
  run();
  keeper.on(event::Signal{SIGTERM});
  EXPECT_EQ(ordered<order::StopInOrder>().size(), 1U);
  EXPECT_EQ(ordered<order::Propose>().back().wish.flags, kStop);
  EXPECT_TRUE(facts.in_order);
  hear(report::OutOfTime{});
  orders.clear();
  workers.take(WorkerUid(1));
  look();
  EXPECT_TRUE(orders.empty());
}

}  // namespace
}  // namespace lockstep::coord

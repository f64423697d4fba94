// A run's keeper alone: what a host's reports come to.
#include "coord/run_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>

namespace lockstep::coord {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class RunKeeperTest : public testing::Test {
 protected:
  void hear(const Report& report) {
    ++view.reported;
    keeper.hear(0, view, report);
  }
  // The host obeys as far as the run's keeper looks.
  void obey(const Order& order) {
    orders.push_back(order);
    ++view.obeyed;
    if (const auto* first = std::get_if<order::FirstTable>(&order)) {
      for (const Member& member : first->table.members) {
        at(member.uid.value()).stage = Stage::kMember;
        at(member.uid.value()).first_txn = first->table.txn;
      }
    }
    if (std::holds_alternative<order::Begin>(order)) view.workers.clear();
    keeper.look_at(0, view);
  }
  WorkerView& at(std::uint64_t uid) {
    return *std::ranges::find(view.workers, WorkerUid(uid), &WorkerView::uid);
  }
  WorkerView take(std::uint64_t uid) {
    const WorkerView worker = at(uid);
    std::erase_if(view.workers, [&](const WorkerView& one) { return one.uid == worker.uid; });
    return worker;
  }
  void ready(std::uint64_t uid, int seat, std::uint64_t state_hash = 0) {
    WorkerView worker;
    worker.uid = WorkerUid(uid);
    worker.slot = Slot(static_cast<std::uint32_t>(seat));
    worker.seat = seat;
    worker.stage = Stage::kReady;
    worker.state_hash = state_hash;
    view.workers.push_back(worker);
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
    keeper.look_at(0, view);
    keeper.look();
    keeper.write_tables();
  }
  void crash(std::uint64_t uid, std::vector<std::uint32_t> shares) {
    const WorkerView worker = take(uid);
    hear(report::Lost{worker, Rank(0), {Cause::kOwnDoing, "exit 7"}, std::move(shares), {}});
  }
  void pass(std::uint64_t time) {
    turn.now += time;
    view.now += time;
    while (keeper.fire_timer()) continue;
    look();
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

  std::string printed() const {
    std::string text;
    for (const Action& action : turn.actions)
      if (const auto* print = std::get_if<action::Print>(&action.what)) text += print->text + "\n";
    return text;
  }

  Config config{.workers = 3, .max_restarts = 1, .timing = {}};
  RunFacts facts;
  HostView view;
  Turn turn{1'000'000'000, {}};
  std::vector<Order> orders;
  RunKeeper keeper{config, {config.workers}, facts, turn, [this](const auto&, const Order& order) {
                     obey(order);
                   }};
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
  EXPECT_EQ(facts.target(), 3U);
}

TEST_F(RunKeeperTest, WithoutRoomForAnotherWorkerTheOthersGoOn) {
  run();
  const WorkerView worker = take(2);
  report::Outlook full;
  full.has_room = false;
  hear(report::Lost{worker, Rank(1), {Cause::kFromOutside, "SIGKILL"}, std::nullopt, full});
  EXPECT_EQ(keeper.replacements_left(), config.max_replacements);
  EXPECT_EQ(facts.target(), 2U);
}

TEST_F(RunKeeperTest, AShareThatCrashesThreeOwnersStartsTheGroupAgainThenStopsTheRun) {
  run();
  ready(4, 3);
  at(4).stage = Stage::kMember;
  at(4).first_txn = Txn(0);
  crash(1, {0, 1});
  crash(2, {0, 2});
  look();
  EXPECT_EQ(facts.group, Group::kRunning);
  crash(3, {0, 3});
  look();
  EXPECT_EQ(facts.group, Group::kRestarting);
  EXPECT_EQ(ordered<order::Kill>().size(), 1U);
  view.workers.clear();
  look();
  EXPECT_EQ(ordered<order::Begin>().size(), 1U);
  EXPECT_EQ(facts.group, Group::kStarting);
  EXPECT_EQ(facts.restarts, 1);
  ready(5, 0);
  crash(5, {});
  EXPECT_EQ(facts.group, Group::kStopping);
}

TEST_F(RunKeeperTest, WhoIsToLeaveIsNotProposed) {
  run();
  keeper.on(event::Scale{1, 2});
  EXPECT_EQ(ordered<order::Shrink>().size(), 1U);
  EXPECT_EQ(facts.target(), 2U);
  at(3).stage = Stage::kLeaving;
  look();
  EXPECT_THAT(proposed(), ElementsAre(WorkerUid(1), WorkerUid(2)));
}

TEST_F(RunKeeperTest, AReportCountsOnceAndInItsTurn) {
  run();
  const report::Lost lost{take(2), Rank(1), {Cause::kFromOutside, "SIGKILL"}, std::nullopt, {}};
  hear(lost);
  keeper.hear(0, view, lost);  // repeated
  HostView later = view;
  later.reported += 2;
  keeper.hear(0, later, lost);  // one is missing
  EXPECT_EQ(keeper.replacements_left(), config.max_replacements - 1);
  EXPECT_EQ(facts.hosts[0].heard, view.reported);
}

TEST_F(RunKeeperTest, AStopInOrderIsProposedUntilItsTimeIsOver) {
  run();
  hear(report::Told{event::Signal{SIGTERM, {}}});
  EXPECT_EQ(ordered<order::StopInOrder>().size(), 1U);
  EXPECT_EQ(ordered<order::Propose>().back().wish.flags, kStop);
  EXPECT_TRUE(facts.in_order);
  hear(report::OutOfTime{});
  orders.clear();
  take(1);
  look();
  EXPECT_TRUE(orders.empty());
}

// A newcomer that is in the table behind the one under way cannot finish that.
TEST_F(RunKeeperTest, AStopInOrderEndsWhereNobodyIsLeftWhoCouldFinishTheStep) {
  run();
  ready(4, 3);
  at(4).stage = Stage::kMember;
  at(4).first_txn = Txn(1);
  hear(report::Told{event::Signal{SIGTERM, {}}});
  orders.clear();
  for (const std::uint64_t uid : {1, 2, 3}) take(uid);
  look();
  EXPECT_TRUE(ordered<order::Kill>().empty()) << "it may be whole";
  pass(config.timing.orphan_grace);
  ASSERT_EQ(ordered<order::Kill>().size(), 1U);
  EXPECT_THAT(printed(), HasSubstr("could finish the transaction died; the run stops without"));
  take(4);
  look();
  EXPECT_EQ(facts.group, Group::kStopped);
  EXPECT_EQ(facts.stop_code, 128 + SIGTERM);
}

// Its host has not heard of the stop.
TEST_F(RunKeeperTest, ARunThatStopsNeedsNoMoreWorkers) {
  run();
  hear(report::Told{event::Signal{SIGTERM, {}}});
  hear(report::NoMoreWorkers{"the program ended five times", false});
  EXPECT_EQ(facts.group, Group::kStopping);
  EXPECT_EQ(facts.restarts, 0);
}

TEST_F(RunKeeperTest, AStopInOrderInWhichNobodyHasLeftIsToldOf) {
  run();
  hear(report::Told{event::Signal{SIGTERM, {}}});
  view.workers.clear();
  look();
  EXPECT_EQ(facts.group, Group::kStopped);
  EXPECT_THAT(printed(), HasSubstr("no worker that holds the state is alive; the run stops"));
}

TEST_F(RunKeeperTest, AStopInOrderInWhichOneHasLeftIsNot) {
  run();
  hear(report::Told{event::Signal{SIGTERM, {}}});
  view.stopped = true;
  view.workers.clear();
  look();
  EXPECT_EQ(facts.group, Group::kStopped);
  EXPECT_THAT(printed(), Not(HasSubstr("the run stops without")));
}

}  // namespace
}  // namespace lockstep::coord

// A run's keeper over several hosts: which are in the tables, and what each is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <utility>
#include <vector>

#include "coord/run_keeper.h"

namespace lockstep::coord {
namespace {

using testing::ElementsAre;

constexpr Stay kOther{1, 1};

// Two hosts, of two workers and one, that obey at once.
class RunHostsTest : public testing::Test {
 protected:
  RunHostsTest() {
    facts.virtual_workers = 8;
    for (std::size_t h = 0; h < views.size(); ++h) views[h].stay = facts.hosts[h].stay;
  }
  void obey(std::size_t host, const Order& order) {
    orders.emplace_back(host, order);
    views[host].obeyed = ordered;
    if (std::holds_alternative<order::Begin>(order)) ++views[host].stay.count;
    if (std::holds_alternative<order::Kill>(order)) views[host].workers.clear();
    keeper.look_at(host, views[host]);
  }
  void hear(std::size_t host, const Report& report) {
    ++views[host].reported;
    keeper.hear(host, views[host], report);
  }
  WorkerView& ready(std::size_t host, std::uint32_t number, Txn next = Txn(0)) {
    WorkerView worker;
    worker.uid = uid_of(views[host].stay, number);
    worker.slot = Slot(number);
    worker.seat = static_cast<int>(number);
    worker.stage = Stage::kReady;
    worker.newcomer = facts.group == Group::kRunning;
    worker.next = next;
    views[host].workers.push_back(worker);
    hear(host, report::Ready{worker.uid});
    return views[host].workers.back();
  }
  void look() {
    for (std::size_t h = 0; h < views.size(); ++h) keeper.look_at(h, views[h]);
    keeper.look();
    keeper.write_tables();
  }
  void run() {
    ready(1, 1);
    ready(0, 1);
    ready(0, 2);
    look();
    for (HostView& view : views)
      for (WorkerView& worker : view.workers) {
        worker.stage = Stage::kMember;
        worker.first_txn = Txn(0);
      }
    look();
  }
  void lose(std::size_t host) {
    const WorkerView worker = views[host].workers.back();
    views[host].workers.pop_back();
    hear(host, report::Lost{worker, Rank(0), {Cause::kFromOutside, "SIGKILL"}, {}, {}});
    look();
  }
  template <class What>
  std::vector<What> told(std::size_t host) const {
    std::vector<What> found;
    for (const auto& [to, order] : orders)
      if (const auto* what = std::get_if<What>(&order); what != nullptr && to == host)
        found.push_back(*what);
    return found;
  }
  std::vector<Stay> hosts_of(const Table& table) const {
    std::vector<Stay> stays;
    for (const Host& host : table.hosts) stays.push_back(host.stay);
    return stays;
  }

  Config config{.max_restarts = 1, .timing = {}};
  RunFacts facts;
  Turn turn{1'000'000'000, {}};
  std::array<HostView, 2> views;
  std::uint64_t ordered = 0;
  std::vector<std::pair<std::size_t, Order>> orders;
  std::vector<std::pair<Stay, bool>> rounds;
  std::vector<Stay> coming;
  RunKeeper keeper{config,
                   {2, 1},
                   facts,
                   turn,
                   [this](const auto& hosts, const Order& order) {
                     for (++ordered; const HostIndex host : hosts) obey(host, order);
                   },
                   [this](Stay stay, bool of_set) { rounds.emplace_back(stay, of_set); },
                   [this](Stay stay) { coming.push_back(stay); }};
};

TEST_F(RunHostsTest, TheFirstTableIsPutTogetherHostByHost) {
  run();
  ASSERT_EQ(told<order::FirstTable>(1).size(), 1U);
  const Table table = told<order::FirstTable>(1)[0].table;
  EXPECT_THAT(table.hosts, ElementsAre(Host{{0, 1}, 2}, Host{{1, 1}, 1}));
  EXPECT_THAT(table.members,
              ElementsAre(Member{uid_of({0, 1}, 1), Slot(1)}, Member{uid_of({0, 1}, 2), Slot(2)},
                          Member{uid_of({1, 1}, 1), Slot(1)}));
}

TEST_F(RunHostsTest, ANewcomerStandsWithItsHost) {
  run();
  views[0].workers.pop_back();
  ready(0, 3);
  look();
  const Table wish = told<order::Propose>(1).back().wish;
  EXPECT_EQ(wish.members[1].uid, uid_of({0, 1}, 3));
  EXPECT_EQ(wish.members[2].uid, uid_of({1, 1}, 1));
}

TEST_F(RunHostsTest, AHostWithoutWorkersGoesAndComesBackAsANewStay) {
  run();
  lose(1);
  EXPECT_THAT(rounds, ElementsAre(std::pair(kOther, false)));
  EXPECT_EQ(facts.hosts[1].standing, Standing::kGoing);
  EXPECT_THAT(hosts_of(told<order::Propose>(0).back().wish), ElementsAre(Stay{0, 1}));
  EXPECT_EQ(keeper.replacements_left(), config.max_replacements - 1);
  look();
  EXPECT_TRUE(told<order::Begin>(1).empty()) << "the round is not over";
  keeper.taken_out({kOther}, true);
  look();
  EXPECT_EQ(told<order::Begin>(1).size(), 1U);
  EXPECT_EQ(facts.hosts[1].standing, Standing::kForming);
  views[0].goes_on = true;
  look();
  EXPECT_TRUE(coming.empty()) << "it has no board that could answer a round";
  ready(1, 2);
  look();
  look();
  EXPECT_THAT(coming, ElementsAre(Stay{1, 2}));
  EXPECT_EQ(facts.hosts[1].standing, Standing::kForming);
  EXPECT_THAT(hosts_of(told<order::Propose>(0).back().wish), ElementsAre(Stay{0, 1}))
      << "not all know of it";
  EXPECT_TRUE(told<order::Serve>(0).empty());
  keeper.have_come({kOther});  // of its last stay
  look();
  EXPECT_EQ(facts.hosts[1].standing, Standing::kForming);
  keeper.have_come({Stay{1, 2}});
  look();
  EXPECT_EQ(facts.hosts[1].standing, Standing::kHere);
  EXPECT_EQ(told<order::Serve>(0).size(), 1U);
  EXPECT_THAT(hosts_of(told<order::Propose>(0).back().wish), ElementsAre(Stay{0, 1}, Stay{1, 2}));
  EXPECT_EQ(keeper.replacements_left(), config.max_replacements - 1);
}

TEST_F(RunHostsTest, ALeadersSuccessorBeginsTheRoundAgainByWhichAHostComes) {
  run();
  lose(1);
  keeper.taken_out({kOther}, true);
  look();
  ready(1, 2);
  look();
  const RunState state = keeper.state();
  RunKeeper next{config,
                 {2, 1},
                 facts,
                 turn,
                 [](const auto&, const Order&) {},
                 [](Stay, bool) {},
                 [this](Stay stay) { coming.push_back(stay); }};
  next.take_over(state, turn.now);
  for (std::size_t h = 0; h < views.size(); ++h) next.meet(h, views[h]);
  next.go_on();
  next.look();
  EXPECT_THAT(coming, ElementsAre(Stay{1, 2}, Stay{1, 2}));
  next.have_come({Stay{1, 2}});
  EXPECT_TRUE(next.state().hosts[1].has_come);
}

TEST_F(RunHostsTest, ALostHostCostsNoReplacementAndDoesNotComeBack) {
  run();
  keeper.lose_host(1, "its agent is silent");
  look();
  EXPECT_THAT(rounds, ElementsAre(std::pair(kOther, true)));
  EXPECT_EQ(keeper.replacements_left(), config.max_replacements);
  EXPECT_EQ(facts.target(), 2U);
  keeper.taken_out({kOther}, true);
  look();
  EXPECT_TRUE(told<order::Begin>(1).empty());
}

TEST_F(RunHostsTest, WhoseStateIsOlderComesInLater) {
  ready(1, 1, Txn(3));
  ready(0, 1, Txn(6));
  ready(0, 2, Txn(6));
  look();
  EXPECT_THAT(hosts_of(told<order::FirstTable>(0).at(0).table), ElementsAre(Stay{0, 1}));
  EXPECT_EQ(told<order::Kill>(1).size(), 1U);
  EXPECT_TRUE(rounds.empty()) << "no table has it";
  look();
  EXPECT_EQ(told<order::Begin>(1).size(), 1U);
}

TEST_F(RunHostsTest, TheFirstTableIsWrittenAgainWhereItIsLostWithItsHost) {
  run();
  keeper.lose_host(0, "its agent is silent");
  look();
  keeper.taken_out({{0, 1}}, false);
  EXPECT_THAT(hosts_of(told<order::FirstTable>(1).back().table), ElementsAre(kOther));
}

TEST_F(RunHostsTest, TheFirstTableIsNotWrittenAgainForWhoWasLostBeforeIt) {
  ready(0, 1), keeper.lose_host(1, "its agent is silent"), look();
  ready(0, 2), look();
  keeper.taken_out({kOther}, false);  // its round began before there was one
  EXPECT_EQ(told<order::FirstTable>(0).size(), 1U);
}

TEST_F(RunHostsTest, AScaleIsDealtOutAsAtTheStart) {
  EXPECT_THAT(shares_of(6, {2, 1}), ElementsAre(4, 2));
  EXPECT_THAT(shares_of(4, {2, 1, 1}), ElementsAre(2, 1, 1));
  EXPECT_THAT(shares_of(3, {8, 1, 1}), ElementsAre(1, 1, 1));
  run();
  keeper.on(event::Scale{1, 2});
  EXPECT_EQ(facts.hosts[0].target, 1U);
  EXPECT_EQ(facts.hosts[1].target, 1U);
  keeper.on(event::Scale{2, 1});
  EXPECT_EQ(facts.target(), 2U) << "each keeps one";
}

TEST_F(RunHostsTest, ASignalToAHostsWorkersLetsTheseGoOneToAllStopsTheRun) {
  run();
  views[0].signal = 15;
  hear(0, report::Signalled{});
  EXPECT_EQ(told<order::LetGo>(0).size(), 1U);
  EXPECT_EQ(facts.group, Group::kRunning);
  views[1].signal = 15;
  hear(1, report::Signalled{});
  EXPECT_EQ(facts.stop_code, 128 + 15);
  EXPECT_EQ(told<order::StopInOrder>(0).size(), 1U);
}

TEST_F(RunHostsTest, TheRunIsFinishedWhenEachHostIs) {
  run();
  hear(1, report::Finished{uid_of(kOther, 1)});
  EXPECT_EQ(facts.group, Group::kRunning);
  hear(0, report::Finished{uid_of({0, 1}, 1)});
  EXPECT_EQ(facts.group, Group::kFinishing);
  EXPECT_EQ(told<order::Finish>(1).size(), 1U);
}

TEST_F(RunHostsTest, EachHostKnowsTheTimeByItsOwnClock) {
  ready(1, 1).time.ran = 5;
  ready(0, 1).time.ran = 7;
  ready(0, 2).time.ran = 7;
  look();
  ASSERT_EQ(facts.group, Group::kRunning);
  EXPECT_EQ(told<order::FirstTable>(1)[0].ran_ns, 7U);
}

TEST_F(RunHostsTest, AnotherProgramOnOneHostIsRefused) {
  const auto describe = [this](std::size_t host, std::uint64_t program) {
    message::Describe what;
    what.virtual_workers = 8;
    what.manifest = R"({"threads":")" + std::to_string(program) + "\"}";
    WorkerView worker;
    worker.uid = uid_of(views[host].stay, 1);
    worker.stage = Stage::kGreeted;
    views[host].workers.push_back(worker);
    hear(host, report::Described{{worker.uid, 8, true, {}, program, bytes_of(what)}, Rank(0)});
  };
  describe(0, 17);
  EXPECT_EQ(told<order::Admit>(0).size(), 1U);
  describe(1, 18);
  EXPECT_EQ(told<order::Refuse>(1).size(), 1U);
  EXPECT_EQ(facts.stop_code, 2);
  EXPECT_THAT(facts.stop_reason,
              testing::StartsWith("what is about to run on node 1 is not what runs on node 0: "
                                  "threads: node 0 has '17', node 1 '18'. "));
}

TEST_F(RunHostsTest, WhereAProgramDoesNotStartIsTold) {
  hear(1, report::MustEnd{2, "the program ended with exit 2", true});
  EXPECT_EQ(facts.stop_code, 2);
  EXPECT_EQ(facts.stop_reason,
            "node 1: the program ended with exit 2; what it says there tells why");
  EXPECT_TRUE(std::ranges::any_of(turn.actions, [](const Action& action) {
    return std::holds_alternative<action::Print>(action.what);
  })) << "who leads has not seen it";
}

TEST_F(RunHostsTest, AHostThatDiesAsTheRunStopsInOrderIsTakenOut) {
  run();
  keeper.on(event::Signal{SIGTERM, {}});
  ASSERT_TRUE(facts.in_order);
  look();
  EXPECT_TRUE(rounds.empty());
  views[1].workers.clear();
  look();
  EXPECT_THAT(rounds, ElementsAre(std::pair(kOther, false)));
  keeper.taken_out({kOther}, true);
  look();
  EXPECT_TRUE(told<order::Begin>(1).empty());
  views[0].workers.clear();
  look();
  EXPECT_EQ(facts.group, Group::kStopped);
}

TEST_F(RunHostsTest, AHostWhoseMembersHaveLeftAsTheRunStopsIsNot) {
  run();
  keeper.on(event::Signal{SIGTERM, {}});
  views[1].workers.clear();
  views[1].stopped = true;
  look();
  EXPECT_TRUE(rounds.empty());
}

// It is in the first table, and its host has not seen that yet.
TEST_F(RunHostsTest, AHostThatHasJustBegunLeavesInOrderToo) {
  ready(1, 1);
  ready(0, 1);
  ready(0, 2);
  look();
  keeper.on(event::Signal{SIGTERM, {}});
  look();
  EXPECT_TRUE(rounds.empty());
  EXPECT_EQ(told<order::Propose>(1).back().wish.members.size(), 3U);
}

// The other host's word of that is on its way.
TEST_F(RunHostsTest, ANewcomerThatMayBeInATableIsWaitedFor) {
  run();
  lose(1);
  keeper.taken_out({kOther}, true);
  look();
  ready(1, 1);
  look();
  keeper.have_come({views[1].stay});
  look();
  ASSERT_TRUE(told<order::Propose>(0).back().wish.has(views[1].workers[0].uid));
  lose(0);
  lose(0);
  EXPECT_EQ(facts.group, Group::kRunning);
  views[1].workers[0].stage = Stage::kMember;
  look();
  turn.now += 2 * config.timing.orphan_grace;
  while (keeper.fire_timer()) continue;
  look();
  EXPECT_EQ(facts.group, Group::kRunning);
  EXPECT_EQ(facts.hosts[1].standing, Standing::kHere);
}

TEST_F(RunHostsTest, AndNotForLong) {
  run();
  lose(1);
  keeper.taken_out({kOther}, true);
  look();
  ready(1, 1);
  look();
  keeper.have_come({views[1].stay});
  look();
  lose(0);
  lose(0);
  turn.now += config.timing.orphan_grace;
  while (keeper.fire_timer()) continue;
  EXPECT_NE(facts.group, Group::kRunning);
}

TEST_F(RunHostsTest, WhatOnlyALostHostHasAppliedLetsNoNewcomerGoOn) {
  run();
  views[0].workers[0].seen.applied = 8;
  hear(0, report::Seen{});
  WorkerView& newcomer = ready(1, 2, Txn(7));
  newcomer.stage = Stage::kMember;
  newcomer.first_txn = Txn(8);
  views[1].workers.erase(views[1].workers.begin());
  look();
  keeper.lose_host(0, "silent");
  look();
  turn.now += config.timing.orphan_grace;
  EXPECT_TRUE(keeper.fire_timer()) << "transaction 7 may be whole nowhere";
}

TEST_F(RunHostsTest, AHostOfNewcomersThatCannotFinishTheStepIsTakenOutAsTheRunStops) {
  run();
  views[1].workers[0].first_txn = Txn(1);
  keeper.on(event::Signal{SIGTERM, {}});
  look();
  turn.now += config.timing.orphan_grace;
  while (keeper.fire_timer()) continue;
  look();
  EXPECT_THAT(rounds, ElementsAre(std::pair(kOther, false)));
  EXPECT_TRUE(facts.in_order) << "the other host goes on";
}

}  // namespace
}  // namespace lockstep::coord

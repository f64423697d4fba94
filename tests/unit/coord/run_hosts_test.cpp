// A run's keeper over several hosts: which are in the tables, and what each is told.
#include "run_hosts.h"

namespace lockstep::coord {
namespace {

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

// Its newcomers cannot take the state from it any more.
TEST_F(RunHostsTest, AHostGoesWhoseOnlyMemberComesInAndDiesBetweenTwoViews) {
  run();
  lose(1);
  keeper.taken_out({kOther}, true);
  look();
  ready(1, 2);
  look(), look();
  keeper.have_come({Stay{1, 2}});
  look();
  ASSERT_EQ(facts.hosts[1].standing, Standing::kHere);
  ready(1, 3);
  rounds.clear();
  WorkerView died = views[1].workers.front();
  died.stage = Stage::kMember;
  views[1].workers.erase(views[1].workers.begin());
  hear(1, report::Lost{died, Rank(2), {Cause::kFromOutside, "SIGKILL"}, {}, {}});
  look();
  EXPECT_THAT(rounds, ElementsAre(std::pair(Stay{1, 2}, false)));
}

TEST_F(RunHostsTest, ALeadersSuccessorBeginsTheRoundAgainByWhichAHostComes) {
  run();
  lose(1);
  keeper.taken_out({kOther}, true);
  look();
  ready(1, 2);
  look();
  RunKeeper next{config,
                 {2, 1},
                 facts,
                 turn,
                 [](const auto&, const Order&) {},
                 [](Stay, bool) {},
                 [this](Stay stay) { coming.push_back(stay); }};
  hand_over(next);
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

TEST_F(RunHostsTest, TheWorkersOfALostHostAreToldByTheirRanks) {
  for (HostView& view : views) view.now = turn.now;
  run();
  keeper.lose_host(1, "its agent is silent");
  const auto open = keeper.state().incidents.open;
  ASSERT_EQ(open.size(), 1U);
  ASSERT_EQ(open[0].report.victims.size(), 1U);
  EXPECT_EQ(open[0].report.victims[0].rank, Rank(2));
  EXPECT_EQ(open[0].report.victims[0].cause, "lost with node 1 (its agent is silent)");
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

TEST_F(RunHostsTest, WhoeverIsReadyKeepsItsPlaceWhenTheFirstTableIsWrittenAgain) {
  run();
  ready(1, 2);
  keeper.lose_host(0, "its agent is silent");
  look();
  orders.clear();
  keeper.taken_out({{0, 1}}, false);
  EXPECT_EQ(told<order::FirstTable>(1).back().table.members.size(), 1U);
  look();
  EXPECT_THAT(members_of(told<order::Propose>(1).at(0).wish),
              ElementsAre(uid_of(kOther, 1), uid_of(kOther, 2)));
}

// Its only worker was lost as the run began, and there is no replacement left.
TEST_F(RunHostsTest, AHostWithoutWorkersAtTheStartComesInOnceItIsToHaveSome) {
  facts.hosts[1].target = 0;
  ready(0, 1), ready(0, 2);
  look();
  EXPECT_THAT(hosts_of(told<order::FirstTable>(0).at(0).table), ElementsAre(Stay{0, 1}));
  look();
  EXPECT_TRUE(told<order::Begin>(1).empty());
  keeper.on(event::Scale{1, 3});
  look();
  EXPECT_EQ(told<order::Begin>(1).size(), 1U);
  EXPECT_TRUE(rounds.empty()) << "no table has it";
}

// Its host has not obeyed yet, and its view says that it leaves.
TEST_F(RunHostsTest, OneThatIsKeptIsInTheTablesAgain) {
  run();
  const WorkerUid kept = views[1].workers[0].uid;
  views[1].workers[0].stage = Stage::kLeaving;
  hear(1, report::LetGo{views[1].workers[0], Rank(2), {}});
  look();
  ASSERT_FALSE(told<order::Propose>(1).back().wish.has(kept));
  lose(0);
  lose(0);
  ASSERT_EQ(told<order::Keep>(1).size(), 1U);
  views[1].workers[0].stage = Stage::kMember;
  look();
  EXPECT_THAT(members_of(told<order::Propose>(1).back().wish), ElementsAre(kept));
}

TEST_F(RunHostsTest, TheLastMembersPlaceIsPaidForWhereANewcomerMayHaveTheState) {
  facts.hosts[0].target = 1;
  ready(1, 1, Txn(3)), ready(0, 1, Txn(6));
  look(), look();
  views[0].workers[0].stage = Stage::kMember;
  ready(1, 1);
  look();
  keeper.have_come({views[1].stay});
  look();
  ASSERT_TRUE(told<order::Propose>(0).back().wish.has(views[1].workers[0].uid));
  lose(0);
  EXPECT_EQ(facts.group, Group::kRunning);
  EXPECT_EQ(keeper.replacements_left(), config.max_replacements - 1);
}

TEST_F(RunHostsTest, ASignalToAllWorkersCountsNoneOfAHostThatGoes) {
  run();
  for (HostView& view : views) view.workers[0].stage = Stage::kMember;
  views[1].workers[0].dismissed = true;
  keeper.look_at(1, views[1]);
  views[0].signal = 15;
  hear(0, report::Signalled{});
  EXPECT_EQ(facts.group, Group::kStopping);
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

}  // namespace
}  // namespace lockstep::coord

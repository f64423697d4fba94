// The run's keeper where it may be lost: what it decides, and who goes on in its place.
#include "coord/run_lead.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <utility>

namespace lockstep::coord {
namespace {

using testing::ElementsAre;

// Three hosts of a worker each. They obey what is in force, at once.
class RunLeadTest : public testing::Test {
 protected:
  RunLeadTest() {
    state_ = first_state({1, 1, 1}, now_);
    for (std::uint16_t h = 0; h < 3; ++h) views_[h].stay = {h, 1};
    lead_ = std::make_unique<RunLead>(config_, state_, now_);
    for (std::uint16_t h = 0; h < 3; ++h) {
      WorkerView worker;
      worker.uid = uid_of(views_[h].stay, 1);
      worker.stage = Stage::kReady;
      views_[h].workers = {worker};
      report(h, report::Ready{worker.uid});
    }
  }
  void say(std::size_t host, const Report& report = report::Seen{}) {
    views_[host].now = ++now_;
    lead_->hear(host, {views_[host], report}, now_);
  }
  void report(std::size_t host, const Report& report) {
    ++views_[host].reported;
    say(host, report);
  }
  // What is written, as a quorum has it.
  RunLead::Follows in_force(const RunState& written) {
    state_ = written;
    for (const GivenOrder& given : state_.orders)
      for (const HostIndex host : given.to) {
        if (given.number <= views_[host].obeyed) continue;
        views_[host].obeyed = given.number;
        obeyed_.emplace_back(host, given.order.index());
        if (std::holds_alternative<order::FirstTable>(given.order))
          views_[host].workers[0].stage = Stage::kMember;
      }
    return lead_->in_force();
  }
  std::optional<RunState> write() {
    lead_->pass(now_ += 1'000'000);
    return lead_->write();
  }
  void settle() {
    while (const auto written = write()) in_force(*written);
    for (std::size_t h = 0; h < 3; ++h)
      if (!lost_.contains(h)) say(h);
    while (const auto written = write()) in_force(*written);
  }
  void lose_worker(std::size_t host) {
    const WorkerView worker = views_[host].workers.back();
    views_[host].workers.pop_back();
    report(host, report::Lost{worker, Rank(0), {Cause::kFromOutside, "SIGKILL"}, {}, {}});
  }
  // The leader is lost; so is what it has written, if it is not in force.
  void take_over() { lead_ = std::make_unique<RunLead>(config_, state_, now_); }

  Config config_{.max_restarts = 1, .timing = {}};
  std::uint64_t now_ = 1'000'000'000;
  std::array<HostView, 3> views_;
  RunState state_;
  std::set<std::size_t> lost_;
  std::vector<std::pair<std::size_t, std::size_t>> obeyed_;  // host, and type of the order
  std::unique_ptr<RunLead> lead_;
};

TEST_F(RunLeadTest, NothingIsDecidedBeforeAllHostsHaveSaidHowTheyAre) {
  take_over();
  views_[0].reported = views_[1].reported = views_[2].reported = 1;
  for (const std::size_t host : {0U, 1U}) {
    say(host, report::Ready{views_[host].workers[0].uid});
    EXPECT_EQ(lead_->facts().hosts[host].heard, 0U);
  }
  lead_->lose_host(2, "silent", now_);
  lead_->pass(now_ += 1'000'000);
  EXPECT_EQ(lead_->facts().hosts[0].heard, 1U);
  EXPECT_EQ(lead_->facts().hosts[2].standing, Standing::kOut);
}

TEST_F(RunLeadTest, WhoeverIsHeardAgainBeforeTheFirstDecisionIsNotLost) {
  take_over();
  for (const std::size_t host : {0U, 1U}) say(host, report::Ready{views_[host].workers[0].uid});
  lead_->lose_host(2, "silent", now_);
  lead_->keep_host(2);
  lead_->pass(now_ += 1'000'000);
  EXPECT_FALSE(lead_->has_decided());
  say(2, report::Ready{views_[2].workers[0].uid});
  lead_->pass(now_ += 1'000'000);
  EXPECT_TRUE(lead_->has_decided());
  EXPECT_NE(lead_->facts().hosts[2].standing, Standing::kOut);
}

TEST_F(RunLeadTest, AViewIsHeardBehindTheReportsThatItTellsOf) {
  take_over();
  for (const std::size_t host : {0U, 1U}) say(host, report::Ready{views_[host].workers[0].uid});
  say(2);  // its report is under way, and comes later
  EXPECT_EQ(lead_->facts().hosts[0].heard, 0U) << "how host 2 is cannot be known from that";
  say(2, report::Ready{views_[2].workers[0].uid});
  say(2);
  const auto written = write();
  ASSERT_TRUE(written);
  ASSERT_TRUE(written->proposal);
  EXPECT_EQ(written->proposal->members.size(), 3U);
  for (const HostState& host : written->hosts) EXPECT_EQ(host.ranks.size(), 1U);
}

TEST_F(RunLeadTest, OneStateIsWrittenAtATimeAndHasWhatFollowsWithIt) {
  const auto first = write();
  ASSERT_TRUE(first);
  ASSERT_EQ(first->orders.size(), 1U);
  EXPECT_THAT(first->orders[0].to, ElementsAre(0, 1, 2));
  lead_->lose_host(2, "silent", now_);
  EXPECT_FALSE(write()) << "the one before is not in force";
  EXPECT_TRUE(in_force(*first).take_out.empty()) << "that is of the next one";
  const auto second = write();
  ASSERT_TRUE(second);
  const auto follows = in_force(*second);
  EXPECT_THAT(follows.take_out, ElementsAre(std::pair(Stay{2, 1}, true)));
  EXPECT_FALSE(follows.actions.empty());
  say(0), say(1);
  write(), lead_->in_force();
  say(0);
  EXPECT_FALSE(write()) << "nothing has changed";
}

TEST_F(RunLeadTest, WhatIsNotInForceIsLostWithItsLeaderAndHeardAgain) {
  settle();
  const WorkerView lost = views_[1].workers[0];
  lose_worker(1);
  const auto written = write();
  ASSERT_TRUE(written);
  EXPECT_EQ(written->replacements.size(), 1U);
  take_over();
  say(0), say(2);
  say(1, report::Lost{lost, Rank(0), {Cause::kFromOutside, "SIGKILL"}, {}, {}});
  const auto again = write();
  ASSERT_TRUE(again);
  EXPECT_EQ(again->facts.hosts[1].heard, 2U);
  EXPECT_EQ(again->incidents.count, 1U);
}

TEST_F(RunLeadTest, WhoGoesOnHasBudgetsOrdersAndNumbers) {
  settle();
  lose_worker(1);
  const auto written = write();
  ASSERT_TRUE(written);
  state_ = *written;  // in force, and nobody has obeyed
  take_over();
  for (const std::size_t host : {0U, 1U, 2U}) say(host);
  const auto next = write();
  ASSERT_TRUE(next);
  EXPECT_EQ(next->replacements, written->replacements);
  EXPECT_EQ(next->incidents.count, 1U);
  EXPECT_EQ(next->generation, written->generation);
  EXPECT_GE(next->ordered, written->ordered);
  ASSERT_GE(next->orders.size(), written->orders.size());
  for (std::size_t i = 0; i < written->orders.size(); ++i)
    EXPECT_EQ(next->orders[i].to, written->orders[i].to);
}

TEST_F(RunLeadTest, TheWorkersOfALeaderThatIsLostAreAnIncident) {
  settle();
  take_over();
  lost_ = {0};
  say(1), say(2);
  lead_->lose_host(0, "silent", now_);
  const auto written = write();
  ASSERT_TRUE(written);
  ASSERT_EQ(written->incidents.open.size(), 1U);
  EXPECT_EQ(written->incidents.open[0].report.victims[0].uid, uid_of({0, 1}, 1));
  EXPECT_EQ(written->facts.group, Group::kRunning);
}

// Whom no table has yet it takes along when it dies: each death is in one incident.
TEST_F(RunLeadTest, ANewcomerThatHasDiedDoesNotDieAgainWithItsHost) {
  settle();
  lose_worker(2);
  settle();
  lead_->taken_out({{Stay{2, 1}, false}}, true, now_);
  settle();
  ASSERT_EQ(state_.facts.hosts[2].standing, Standing::kForming);
  views_[2].stay = {2, 2};
  WorkerView newcomer;
  newcomer.uid = uid_of(views_[2].stay, 1);
  newcomer.stage = Stage::kReady;
  newcomer.newcomer = true;
  views_[2].workers = {newcomer};
  report(2, report::Ready{newcomer.uid});
  settle();
  ASSERT_THAT(state_.hosts[2].ranks, ElementsAre(newcomer.uid));
  lose_worker(2);
  settle();
  EXPECT_EQ(state_.incidents.open.back().report.victims.back().uid, newcomer.uid);
  EXPECT_TRUE(state_.hosts[2].ranks.empty());
  take_over();
  lost_ = {2};
  say(0), say(1);
  lead_->lose_host(2, "silent", now_);
  const auto written = write();
  ASSERT_TRUE(written);
  std::size_t deaths = 0;
  for (const auto& incident : written->incidents.open)
    deaths += static_cast<std::size_t>(
        std::ranges::count(incident.report.victims, newcomer.uid, &Victim::uid));
  EXPECT_EQ(deaths, 1U);
}

TEST_F(RunLeadTest, NorDoesOneThatLives) {
  settle();
  state_.hosts[1].ranks.push_back(uid_of({1, 1}, 2));  // ready, and in no table
  take_over();
  lost_ = {1};
  say(0), say(2);
  lead_->lose_host(1, "silent", now_);
  const auto written = write();
  ASSERT_TRUE(written);
  ASSERT_EQ(written->incidents.open.size(), 1U);
  EXPECT_EQ(written->incidents.open[0].report.victims.size(), 1U);
}

// Its round was of the old group's tables.
TEST_F(RunLeadTest, AHostThatWasOnItsWayOutAsTheGroupStartsAnewNeedsNoRound) {
  settle();
  lose_worker(2);
  settle();
  ASSERT_EQ(state_.facts.hosts[2].standing, Standing::kGoing);
  lose_worker(0), lose_worker(1);
  auto written = write();
  ASSERT_TRUE(written);
  ASSERT_EQ(written->facts.group, Group::kRestarting);
  state_ = *written;  // in force, and nobody has obeyed
  take_over();
  for (HostView& view : views_) view.obeyed = state_.ordered;
  for (const std::size_t host : {0U, 1U, 2U}) say(host);
  std::vector<std::pair<Stay, bool>> rounds;
  while ((written = write()))
    std::ranges::move(in_force(*written).take_out, std::back_inserter(rounds));
  EXPECT_EQ(state_.facts.group, Group::kStarting);
  EXPECT_TRUE(rounds.empty());
}

// The round's end and the loss come in one moment.
TEST_F(RunLeadTest, ARoundAboutTablesTakesNobodyOutOfTheSet) {
  settle();
  lose_worker(2);
  settle();
  ASSERT_EQ(state_.facts.hosts[2].standing, Standing::kGoing);
  lead_->lose_host(2, "silent", now_);
  lead_->taken_out({{Stay{2, 1}, false}}, true, now_);
  auto written = write();
  ASSERT_TRUE(written);
  EXPECT_THAT(in_force(*written).take_out, ElementsAre(std::pair(Stay{2, 1}, true)));
  lead_->taken_out({{Stay{2, 1}, true}}, true, now_);
  written = write();
  ASSERT_TRUE(written);
  EXPECT_TRUE(written->hosts[2].off_tables);
}

TEST_F(RunLeadTest, NoRoundBeginsBeforeAHostThatIsGivenUpIsOut) {
  settle();
  lose_worker(2);
  settle();
  lead_->taken_out({{Stay{2, 1}, false}}, true, now_);
  auto written = write();
  ASSERT_TRUE(written);
  state_ = *written;  // in force, and host 2 has not obeyed: it has its old board
  lead_->in_force();
  EXPECT_FALSE(lead_->may_begin_rounds(state_.facts));
  lead_->lose_host(2, "silent", now_);
  written = write();
  ASSERT_TRUE(written);
  EXPECT_FALSE(lead_->may_begin_rounds(state_.facts));
  lead_->in_force();
  EXPECT_TRUE(lead_->may_begin_rounds(written->facts));
}

TEST_F(RunLeadTest, TheRunsTimeGoesOn) {
  views_[0].workers[0].time.ran = 5'000;
  say(0);
  settle();
  const std::uint64_t before = state_.clock.time.ran;
  now_ += 500'000;
  lead_ = std::make_unique<RunLead>(config_, state_, now_ - 500'000);
  lead_->pass(now_);
  const auto next = write();
  ASSERT_TRUE(next);
  EXPECT_GE(next->clock.time.ran, before + 500'000);
}

// What one host says, however often, stands in a state that all can read.
TEST_F(RunLeadTest, AHostThatSaysTheSameAgainAndAgainCostsTheOthersNothing) {
  settle();
  const WorkerUid uid = views_[2].workers[0].uid;
  for (int i = 0; i < 3; ++i) {
    report(2, report::Ready{uid});
    report(2, report::LoopEnded{"a loop"});
    settle();
    EXPECT_TRUE(decode_run_state(encode(state_)).ok());
  }
  EXPECT_EQ(state_.facts.hosts[2].target, 0U);
  EXPECT_EQ(state_.hosts[2].ranks.size(), 1U);
}

// All that it is told is in the state.
TEST_F(RunLeadTest, WhoDoesNothingOfWhatItIsToldIsLost) {
  settle();
  const auto told = [&](std::size_t host) {
    for (int i = 0; i < 400 && !lost_.contains(host); ++i) {
      report(host, report::Described{{views_[host].workers[0].uid, 4, true,
                                      Error{ErrorKind::kUsage, std::string(9'000, 'x')}},
                                     Rank(2)});
      const auto written = write();
      if (written) state_ = *written, lead_->in_force();
      EXPECT_LT(encode(state_).size(), kMostWordBytes / 2);
      if (state_.facts.hosts[host].standing == Standing::kOut) lost_.insert(host);
    }
  };
  told(2);
  EXPECT_TRUE(lost_.contains(2));
  EXPECT_TRUE(std::ranges::none_of(state_.orders, [](const GivenOrder& given) {
    return given.to == std::vector<HostIndex>{2};
  })) << "nobody does what it was told";
  EXPECT_EQ(state_.facts.hosts[1].standing, Standing::kHere);
}

TEST_F(RunLeadTest, WhatIsSaidBeforeAllAreThereIsKeptWithinBounds) {
  take_over();
  views_[1].reported = 0;
  for (int i = 0; i < 10'000; ++i) report(1, report::Ready{views_[1].workers[0].uid});
  for (const std::size_t host : {0U, 2U}) say(host, report::Ready{views_[host].workers[0].uid});
  lead_->pass(now_ += 1'000'000);
  EXPECT_EQ(lead_->facts().hosts[1].heard, 4096U);
}

TEST_F(RunLeadTest, WhatHasComeIsDecidedAboutAtOnceAndObeyingIsNoNews) {
  settle();
  lead_->lose_host(1, "silent", now_);
  lead_->lose_host(2, "silent", now_);
  const auto written = write();
  ASSERT_TRUE(written);
  EXPECT_EQ(written->orders.size(), 1U) << "one proposal, without both";
  const RunLead::Follows follows = in_force(*written);
  EXPECT_EQ(follows.take_out.size(), 2U);
  say(0);
  EXPECT_FALSE(write());
}

TEST_F(RunLeadTest, OfManyHostsItDecidesEveryMillisecondsOrder) {
  const RunState many = first_state(std::vector<std::uint32_t>(1000, 1), now_);
  RunLead lead(config_, many, now_);
  lead.pass(now_);
  lead.hear(0, {.view = {.stay = {0, 1}, .now = now_, .waits = {}, .workers = {}}}, now_);
  EXPECT_EQ(lead.next_deadline(now_ + 1'000'000'000), now_ + 20'000'000);
}

TEST(Pulses, NameTwoHostsOfEachKind) {
  RunFacts facts = first_facts(std::vector<std::uint32_t>(1000, 1));
  for (HostFacts& host : facts.hosts) {
    host.standing = Standing::kHere;
    host.goes_on = true;
    host.waits = {Txn(host.stay.host < 500 ? 3 : 4), 8};
  }
  const std::vector<Pulse> pulses = pulses_of(facts);
  EXPECT_EQ(pulses.size(), 4U);
  RunFacts told = first_facts(std::vector<std::uint32_t>(1000, 1));
  told.hosts[7].goes_on = true;  // of before
  set(told, pulses);
  const auto waits_in = [&](std::uint64_t txn) {
    return std::ranges::count_if(told.hosts, [txn](const HostFacts& host) {
      return host.waits == Waits{Txn(txn), 8};
    });
  };
  EXPECT_EQ(waits_in(3), 2);
  EXPECT_EQ(waits_in(4), 2);
  EXPECT_EQ(std::ranges::count_if(told.hosts, &HostFacts::goes_on), 2);
}

}  // namespace
}  // namespace lockstep::coord

// A host's part of a plain run alone: three workers, ranks 4 to 6 of eight.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

#include "coord/plain/host.h"
#include "unit/coord/times.h"

namespace lockstep::coord::plain {
namespace {

using testing::HasSubstr;

class HostOfThree : public testing::Test {
 protected:
  HostOfThree() : host_({.workers = 3}) {}

  template <class What>
  void hand(const What& what) {
    told_ = host_.handle(what, now_);
    while (sweeps_ && host_.looks_for_left()) {
      host_.nothing_is_left();
      Told more = host_.handle(Event(event::Tick{}), now_);
      std::move(more.actions.begin(), more.actions.end(), std::back_inserter(told_.actions));
      std::move(more.reports.begin(), more.reports.end(), std::back_inserter(told_.reports));
    }
    for (const Action& action : told_.actions)
      if (const auto* print = std::get_if<action::Print>(&action.what))
        printed_ += print->text + "\n";
  }
  void feed(const Event& event) { hand(event); }
  void order(const Order& order) { hand(order); }
  void start(int attempt = 1) {
    order(order::Begin{attempt, 8, 4, attempt - 1, 1});
    const auto asked = all<action::Spawn>();
    uids_.clear();
    for (const action::Spawn& spawn : asked) uids_.push_back(spawn.uid);
    for (const WorkerUid uid : uids_) feed(event::Forked{uid, 100});
  }
  void exit(std::size_t worker, ExitStatus status) { feed(event::Exited{uids_[worker], status}); }
  void pass(std::uint64_t span) {
    now_ += span;
    feed(event::Tick{});
  }
  // Of what was told last.
  template <class What>
  std::vector<What> all() const {
    std::vector<What> found;
    for (const Action& action : told_.actions)
      if (const auto* what = std::get_if<What>(&action.what)) found.push_back(*what);
    return found;
  }
  std::vector<int> kills() const {
    std::vector<int> signals;
    for (const action::Kill& kill : all<action::Kill>()) signals.push_back(kill.signal);
    return signals;
  }
  template <class What>
  const What* reported() const {
    return told_.reports.size() == 1 ? std::get_if<What>(&told_.reports[0]) : nullptr;
  }

  Host host_;
  bool sweeps_ = true;  // what workers have started is gone as soon as somebody looks
  std::uint64_t now_ = kSecond;
  Told told_;
  std::vector<WorkerUid> uids_;
  std::string printed_;
};

TEST_F(HostOfThree, StartsItsOwnWorkersOnly) {
  order(order::Begin{1, 8, 4, 0, 1});
  const auto asked = all<action::Spawn>();
  ASSERT_EQ(asked.size(), 3U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(asked[static_cast<std::size_t>(i)].rank, Rank(4 + i));
    EXPECT_EQ(asked[static_cast<std::size_t>(i)].local_rank, LocalRank(i));
    EXPECT_EQ(asked[static_cast<std::size_t>(i)].world_size, 8);
  }
  EXPECT_TRUE(all<action::RestartGroup>().empty());
  EXPECT_EQ(host_.state(), "starting");
}

TEST_F(HostOfThree, AttemptsDifferInTheirWorkers) {
  start();
  const std::vector<WorkerUid> before = uids_;
  exit(0, {1, 0});
  ASSERT_NE(reported<report::Failed>(), nullptr);
  EXPECT_EQ(reported<report::Failed>()->text, "rank 4 (local rank 0) ended with exit 1");
  EXPECT_FALSE(reported<report::Failed>()->from_outside);
  EXPECT_FALSE(reported<report::Failed>()->code);
  exit(1, {-1, SIGKILL});
  EXPECT_TRUE(told_.reports.empty()) << "the first one counts";
  order(order::End{1, "it broke"});
  EXPECT_EQ(kills(), std::vector<int>{SIGKILL});
  EXPECT_TRUE(told_.reports.empty());
  exit(2, {-1, SIGKILL});
  ASSERT_NE(reported<report::Gone>(), nullptr);
  start(2);
  for (const WorkerUid uid : before)
    EXPECT_EQ(std::count(uids_.begin(), uids_.end(), uid), 0) << "late words must not match";
  feed(event::Exited{before[0], {1, 0}});
  EXPECT_TRUE(told_.reports.empty());
}

TEST_F(HostOfThree, SaysOnceThatAllHaveEndedWell) {
  start();
  for (const std::size_t i : {2U, 0U}) {
    exit(i, {0, 0});
    EXPECT_TRUE(told_.reports.empty());
  }
  exit(1, {0, 0});
  ASSERT_NE(reported<report::Well>(), nullptr);
  pass(kSecond);
  EXPECT_TRUE(told_.reports.empty());
  order(order::End{1, "rank 0 broke"});
  EXPECT_NE(reported<report::Gone>(), nullptr) << "the finished are begun again with the others";
}

// A worker may have been a script around the program that computes.
TEST_F(HostOfThree, AnAttemptIsOverOnceNothingIsLeftOfIt) {
  sweeps_ = false;
  start();
  exit(0, {1, 0});
  order(order::End{1, "it broke"});
  for (const std::size_t i : {1U, 2U}) {
    EXPECT_FALSE(host_.looks_for_left()) << "a worker lives";
    host_.nothing_is_left();
    exit(i, {-1, SIGKILL});
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(host_.looks_for_left());
    pass(kSecond);
    EXPECT_TRUE(told_.reports.empty());
  }
  host_.nothing_is_left();
  pass(0);
  EXPECT_NE(reported<report::Gone>(), nullptr);
  EXPECT_FALSE(host_.looks_for_left());
}

// On another host somebody has failed meanwhile.
TEST_F(HostOfThree, NoAttemptBeginsBesideWhatAGoodEndHasLeft) {
  sweeps_ = false;
  start();
  for (const std::size_t i : {0U, 1U, 2U}) exit(i, {0, 0});
  ASSERT_NE(reported<report::Well>(), nullptr);
  EXPECT_FALSE(host_.looks_for_left()) << "the run may be over: then they have their time";
  order(order::Begin{2, 8, 4, 1, 1});
  EXPECT_TRUE(all<action::Spawn>().empty());
  EXPECT_TRUE(host_.looks_for_left());
  host_.nothing_is_left();
  pass(0);
  EXPECT_EQ(all<action::Spawn>().size(), 3U);
  EXPECT_EQ(all<action::RestartGroup>().size(), 1U);
}

TEST_F(HostOfThree, AStopDoesNotWaitForWhatIsLeft) {
  sweeps_ = false;
  start();
  order(order::Stop{"rank 0 broke", SIGTERM});
  for (const std::size_t i : {0U, 1U, 2U}) exit(i, {-1, SIGTERM});
  EXPECT_NE(reported<report::Gone>(), nullptr);
  EXPECT_FALSE(host_.looks_for_left());
}

TEST_F(HostOfThree, AFailureIsNeverAGoodEnd) {
  start();
  exit(0, {1, 0});
  exit(1, {0, 0});
  exit(2, {0, 0});
  EXPECT_TRUE(told_.reports.empty());
}

TEST_F(HostOfThree, WrongInputEndsTheRunAtOnce) {
  start();
  exit(0, {-1, SIGTERM});  // is waited for
  exit(1, {65, 0});
  ASSERT_NE(reported<report::Failed>(), nullptr);
  EXPECT_EQ(reported<report::Failed>()->code, 65);
  pass(kSecond);
  EXPECT_TRUE(told_.reports.empty());
}

TEST_F(HostOfThree, ADeathByAStopSignalCountsAfterASecond) {
  start();
  exit(0, {-1, SIGTERM});
  pass(990 * kMillisecond);
  exit(1, {1, 0});
  EXPECT_TRUE(told_.reports.empty());
  EXPECT_LE(host_.next_deadline(now_), now_ + 10 * kMillisecond);
  pass(20 * kMillisecond);
  ASSERT_NE(reported<report::Failed>(), nullptr);
  EXPECT_EQ(reported<report::Failed>()->text, "rank 4 (local rank 0) ended with SIGTERM");
  EXPECT_TRUE(reported<report::Failed>()->from_outside);
  EXPECT_EQ(reported<report::Failed>()->age_ns, kSecond + 10 * kMillisecond);
}

// Another host's failure, which may be this one's consequence, ends the attempt meanwhile.
TEST_F(HostOfThree, ADeathThatIsHeldIsToldWithItsAgeWhenTheAttemptEnds) {
  start();
  exit(0, {-1, SIGTERM});
  pass(300 * kMillisecond);
  order(order::End{1, ""});
  ASSERT_NE(reported<report::Failed>(), nullptr);
  EXPECT_EQ(reported<report::Failed>()->age_ns, 300 * kMillisecond);
  EXPECT_EQ(reported<report::Failed>()->rank, 4);
  EXPECT_TRUE(reported<report::Failed>()->by_signal);
  EXPECT_EQ(kills(), (std::vector<int>{SIGKILL, SIGKILL}));
}

TEST_F(HostOfThree, NorDoesItCountIfTheLauncherGetsOneMeanwhile) {
  start();
  for (const std::size_t i : {0U, 1U, 2U}) exit(i, {143, 0});
  EXPECT_TRUE(told_.reports.empty());
  feed(event::Signal{SIGTERM});
  ASSERT_EQ(told_.reports.size(), 2U);
  EXPECT_EQ(std::get<report::Signalled>(told_.reports[0]).signal, SIGTERM);
  EXPECT_EQ(std::get<report::Gone>(told_.reports[1]).attempt, 1);
}

TEST_F(HostOfThree, ItsOwnSignalGoesToItsWorkersBeforeAnybodyAnswers) {
  start();
  feed(event::Signal{SIGINT});
  EXPECT_EQ(kills(), (std::vector<int>{SIGINT, SIGINT, SIGINT}));
  order(order::Stop{"stopped by SIGTERM", SIGTERM});
  EXPECT_TRUE(told_.actions.empty()) << "they have been told";
  order(order::End{1, "cut off"});
  EXPECT_EQ(kills(), (std::vector<int>{SIGKILL, SIGKILL, SIGKILL})) << "others may start soon";
}

TEST_F(HostOfThree, WhoStopsBeginsNothing) {
  feed(event::Signal{SIGTERM});
  EXPECT_NE(reported<report::Signalled>(), nullptr);
  order(order::Begin{1, 8, 4, 0, 1});
  EXPECT_TRUE(told_.actions.empty());
  ASSERT_NE(reported<report::Gone>(), nullptr);
  order(order::Final{143, "stopped by SIGTERM"});
  ASSERT_EQ(all<action::Stop>().size(), 1U);
  EXPECT_EQ(all<action::Stop>()[0].exit_code, 143);
}

TEST_F(HostOfThree, AStopNamesWhomItWaitsForAndKillsWhoIsLate) {
  start();
  order(order::Stop{"rank 0 broke", SIGTERM});
  EXPECT_EQ(kills(), (std::vector<int>{SIGTERM, SIGTERM, SIGTERM}));
  exit(1, {-1, SIGTERM});
  for (int i = 0; i < 2; ++i) pass(kSecond);
  EXPECT_THAT(printed_,
              HasSubstr("waiting for rank 4 (local rank 0), rank 6 (local rank 2), up to 28.0 s "
                        "(--shutdown-timeout)\n"));
  for (int i = 0; i < 28; ++i) pass(kSecond);
  EXPECT_EQ(kills(), (std::vector<int>{SIGKILL, SIGKILL}));
  EXPECT_THAT(printed_,
              HasSubstr("rank 4 (local rank 0), rank 6 (local rank 2): not ended 30.0 s after "
                        "they were told to end (--shutdown-timeout); killed\n"));
  exit(0, {-1, SIGKILL});
  EXPECT_TRUE(told_.reports.empty());
  exit(2, {-1, SIGKILL});
  EXPECT_NE(reported<report::Gone>(), nullptr);
}

TEST_F(HostOfThree, WhoIsStillToBeForkedIsWaitedFor) {
  order(order::Begin{1, 8, 4, 0, 1});
  feed(event::SpawnFailed{WorkerUid(1), "no memory"});
  ASSERT_NE(reported<report::Failed>(), nullptr);
  EXPECT_EQ(reported<report::Failed>()->code, 69);
  order(order::Stop{"cannot start a worker: no memory", SIGTERM});
  EXPECT_TRUE(told_.reports.empty());
  feed(event::Forked{WorkerUid(2), 100});
  EXPECT_EQ(kills(), std::vector<int>{SIGKILL});
  feed(event::SpawnFailed{WorkerUid(3), "no memory"});
  EXPECT_TRUE(told_.reports.empty()) << "one lives";
  feed(event::Exited{WorkerUid(2), {-1, SIGKILL}});
  EXPECT_NE(reported<report::Gone>(), nullptr);
}

// The agent is frozen together with its workers: that time is nobody's.
TEST_F(HostOfThree, ItsOwnSilenceCountsForNobody) {
  start();
  exit(0, {-1, SIGTERM});
  pass(3600 * kSecond);
  EXPECT_TRUE(told_.reports.empty());
  pass(kSecond);
  EXPECT_NE(reported<report::Failed>(), nullptr);
  order(order::Stop{"it broke", SIGTERM});
  pass(3600 * kSecond);
  for (int i = 0; i < 29; ++i) {
    pass(kSecond);
    EXPECT_TRUE(kills().empty());
  }
  pass(kSecond);
  EXPECT_EQ(kills(), (std::vector<int>{SIGKILL, SIGKILL}));
}

TEST_F(HostOfThree, SaysOnceWhatWillBeDoneAboutFailures) {
  start();
  exit(0, {1, 0});
  order(order::End{1, "it broke"});
  exit(1, {-1, SIGKILL});
  exit(2, {-1, SIGKILL});
  start(2);
  const std::string policy =
      "3 workers; when one dies, all are stopped; restarts of all: 1 (--max-restarts)\n";
  EXPECT_EQ(printed_.find(policy), 0U);
  EXPECT_EQ(printed_.rfind(policy), 0U);
}

}  // namespace
}  // namespace lockstep::coord::plain

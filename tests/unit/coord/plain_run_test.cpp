// The run's part of a plain run alone: three hosts with 2, 1 and 3 workers.
#include <gtest/gtest.h>

#include <csignal>

#include "coord/plain/run.h"

namespace lockstep::coord::plain {
namespace {

class ThreeHosts : public testing::Test {
 protected:
  ThreeHosts() : run_({2, 1, 3}, 1) { orders_ = run_.start(); }
  void hear(int host, const Report& report) { orders_ = run_.handle(host, report); }
  // The order of this kind that each host has just got; nothing if not all have got one.
  template <class What>
  std::vector<What> to_all() const {
    std::vector<What> found;
    for (const Addressed& order : orders_)
      if (const auto* what = std::get_if<What>(&order.order);
          what != nullptr && order.host == static_cast<int>(found.size()))
        found.push_back(*what);
    return found.size() == 3 && orders_.size() == 3 ? found : std::vector<What>();
  }

  plain::Run run_;
  Orders orders_;
};

TEST_F(ThreeHosts, RanksGoFromNodeToNode) {
  const auto begun = to_all<order::Begin>();
  ASSERT_EQ(begun.size(), 3U);
  const int bases[] = {0, 2, 3};
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(begun[i].base_rank, bases[i]);
    EXPECT_EQ(begun[i].world_size, 6);
    EXPECT_EQ(begun[i].attempt, 1);
    EXPECT_EQ(begun[i].restart_count, 0);
    EXPECT_EQ(begun[i].max_restarts, 1);
  }
}

TEST_F(ThreeHosts, EndWellTogether) {
  hear(2, report::Well{1});
  hear(0, report::Well{1});
  EXPECT_TRUE(orders_.empty());
  hear(1, report::Well{1});
  ASSERT_EQ(to_all<order::Final>().size(), 3U);
  EXPECT_EQ(to_all<order::Final>()[0].code, 0);
  hear(1, report::Signalled{SIGTERM});
  EXPECT_TRUE(orders_.empty()) << "the run is over";
}

TEST_F(ThreeHosts, AFailureEndsTheFinishedToo) {
  hear(0, report::Well{1});
  hear(1, report::Failed{1, "rank 2 (worker 1) ended with exit 1"});
  ASSERT_EQ(to_all<order::End>().size(), 3U);
  EXPECT_EQ(to_all<order::End>()[0].text,
            "rank 2 (worker 1) ended with exit 1; the group starts again (restart 1 of 1)");
}

TEST_F(ThreeHosts, TheNextAttemptWaitsForTheLastWorkerOfAll) {
  hear(1, report::Failed{1, "it broke"});
  hear(0, report::Gone{1});
  hear(2, report::Failed{1, "it missed its peer"});  // of the same attempt: costs nothing
  hear(2, report::Gone{1});
  hear(2, report::Gone{1});
  EXPECT_TRUE(orders_.empty());
  hear(1, report::Gone{1});
  ASSERT_EQ(to_all<order::Begin>().size(), 3U);
  EXPECT_EQ(to_all<order::Begin>()[2].attempt, 2);
  EXPECT_EQ(to_all<order::Begin>()[2].restart_count, 1);
  EXPECT_EQ(run_.restarts(), 1);
}

TEST_F(ThreeHosts, WhatIsSaidOfAnEarlierAttemptCountsForNothing) {
  hear(1, report::Failed{1, "it broke"});
  for (const int host : {0, 1, 2}) hear(host, report::Gone{1});
  hear(0, report::Failed{1, "it broke, too"});
  EXPECT_TRUE(orders_.empty());
  for (const int host : {0, 1, 2}) hear(host, report::Well{1});
  EXPECT_TRUE(orders_.empty());
}

TEST_F(ThreeHosts, ASpentBudgetStopsAllWithTheFirstFailuresCode) {
  for (const bool from_outside : {true, false}) {
    plain::Run run({2, 1, 3}, 0);
    run.start();
    orders_ = run.handle(2, report::Failed{1, "it broke", from_outside});
    ASSERT_EQ(to_all<order::Stop>().size(), 3U);
    EXPECT_EQ(to_all<order::Stop>()[0].reason, "it broke; --max-restarts 0 allows no restart");
    EXPECT_EQ(to_all<order::Stop>()[0].signal, SIGTERM);
    for (const int host : {0, 1, 2}) orders_ = run.handle(host, report::Gone{1});
    ASSERT_EQ(to_all<order::Final>().size(), 3U);
    EXPECT_EQ(to_all<order::Final>()[1].code, from_outside ? 75 : 1);
  }
}

TEST_F(ThreeHosts, AFailureWithACodeCostsNoRestart) {
  hear(0, report::Failed{1, "cannot start a worker: no memory", true, 69});
  ASSERT_EQ(to_all<order::Stop>().size(), 3U);
  EXPECT_EQ(run_.restarts(), 0);
  for (const int host : {2, 1, 0}) hear(host, report::Gone{1});
  ASSERT_EQ(to_all<order::Final>().size(), 3U);
  EXPECT_EQ(to_all<order::Final>()[0].code, 69);
}

TEST_F(ThreeHosts, TheFirstSignalGivesTheCode) {
  hear(1, report::Signalled{SIGINT});
  ASSERT_EQ(to_all<order::Stop>().size(), 3U);
  EXPECT_EQ(to_all<order::Stop>()[0].signal, SIGINT);
  hear(0, report::Signalled{SIGTERM});
  EXPECT_TRUE(orders_.empty());
  for (const int host : {0, 1, 2}) hear(host, report::Gone{1});
  EXPECT_EQ(to_all<order::Final>().at(0).code, 130);
}

TEST_F(ThreeHosts, ASignalBetweenTwoAttemptsLeavesNoSecondOne) {
  hear(0, report::Failed{1, "it broke"});
  hear(0, report::Gone{1});
  hear(1, report::Signalled{SIGTERM});
  ASSERT_EQ(to_all<order::Stop>().size(), 3U);
  hear(1, report::Gone{1});
  hear(2, report::Gone{1});
  EXPECT_EQ(to_all<order::Final>().at(0).code, 143);
}

}  // namespace
}  // namespace lockstep::coord::plain

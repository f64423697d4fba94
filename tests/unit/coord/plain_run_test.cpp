// The run's part of a plain run alone.
#include <gtest/gtest.h>

#include <csignal>

#include "coord/plain/run.h"

namespace lockstep::coord::plain {
namespace {

class PlainRun : public testing::Test {
 protected:
  PlainRun() : run_(3, 1) { orders_ = run_.start(); }
  void hear(const Report& report) { orders_ = run_.handle(report); }
  // The one order that has just come, if it is of this kind.
  template <class What>
  const What* given() const {
    return orders_.size() == 1 ? std::get_if<What>(&orders_[0]) : nullptr;
  }

  plain::Run run_;
  Orders orders_;
};

TEST_F(PlainRun, BeginsAtOnce) {
  const auto* begun = given<order::Begin>();
  ASSERT_NE(begun, nullptr);
  EXPECT_EQ(begun->base_rank, 0);
  EXPECT_EQ(begun->world_size, 3);
  EXPECT_EQ(begun->attempt, 1);
  EXPECT_EQ(begun->restart_count, 0);
  EXPECT_EQ(begun->max_restarts, 1);
}

TEST_F(PlainRun, EndsWell) {
  hear(report::Well{1});
  ASSERT_NE(given<order::Final>(), nullptr);
  EXPECT_EQ(given<order::Final>()->code, 0);
  hear(report::Signalled{SIGTERM});
  EXPECT_TRUE(orders_.empty()) << "the run is over";
}

TEST_F(PlainRun, TheNextAttemptWaitsForTheLastWorker) {
  hear(report::Failed{1, "it broke"});
  ASSERT_NE(given<order::End>(), nullptr);
  EXPECT_EQ(given<order::End>()->text, "it broke; the group starts again (restart 1 of 1)");
  hear(report::Failed{1, "another missed its peer"});  // of the same attempt: costs nothing
  EXPECT_TRUE(orders_.empty());
  hear(report::Gone{1});
  ASSERT_NE(given<order::Begin>(), nullptr);
  EXPECT_EQ(given<order::Begin>()->attempt, 2);
  EXPECT_EQ(given<order::Begin>()->restart_count, 1);
  EXPECT_EQ(run_.restarts(), 1);
}

TEST_F(PlainRun, WhatIsSaidOfAnEarlierAttemptCountsForNothing) {
  hear(report::Failed{1, "it broke"});
  hear(report::Gone{1});
  hear(report::Failed{1, "it broke, too"});
  EXPECT_TRUE(orders_.empty());
  hear(report::Well{1});
  EXPECT_TRUE(orders_.empty());
}

TEST_F(PlainRun, ASpentBudgetStopsAllWithTheFirstFailuresCode) {
  for (const bool from_outside : {true, false}) {
    plain::Run run(3, 0);
    run.start();
    orders_ = run.handle(report::Failed{1, "it broke", from_outside});
    ASSERT_NE(given<order::Stop>(), nullptr);
    EXPECT_EQ(given<order::Stop>()->reason, "it broke; --max-restarts 0 allows no restart");
    EXPECT_EQ(given<order::Stop>()->signal, SIGTERM);
    orders_ = run.handle(report::Gone{1});
    ASSERT_NE(given<order::Final>(), nullptr);
    EXPECT_EQ(given<order::Final>()->code, from_outside ? 75 : 1);
  }
}

TEST_F(PlainRun, AFailureWithACodeCostsNoRestart) {
  hear(report::Failed{1, "cannot start a worker: no memory", true, 69});
  ASSERT_NE(given<order::Stop>(), nullptr);
  EXPECT_EQ(run_.restarts(), 0);
  hear(report::Gone{1});
  ASSERT_NE(given<order::Final>(), nullptr);
  EXPECT_EQ(given<order::Final>()->code, 69);
}

TEST_F(PlainRun, TheFirstSignalGivesTheCode) {
  hear(report::Signalled{SIGINT});
  ASSERT_NE(given<order::Stop>(), nullptr);
  EXPECT_EQ(given<order::Stop>()->signal, SIGINT);
  hear(report::Signalled{SIGTERM});
  EXPECT_TRUE(orders_.empty());
  hear(report::Gone{1});
  ASSERT_NE(given<order::Final>(), nullptr);
  EXPECT_EQ(given<order::Final>()->code, 130);
}

TEST_F(PlainRun, ASignalBetweenTwoAttemptsLeavesNoSecondOne) {
  hear(report::Failed{1, "it broke"});
  hear(report::Signalled{SIGTERM});
  ASSERT_NE(given<order::Stop>(), nullptr);
  hear(report::Gone{1});
  ASSERT_NE(given<order::Final>(), nullptr);
  EXPECT_EQ(given<order::Final>()->code, 143);
}

}  // namespace
}  // namespace lockstep::coord::plain

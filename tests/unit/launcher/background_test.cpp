// Jobs beside the loop.
#include "launcher/background.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/log.h"
#include "support/until.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

TEST(Background, FinishesItsJobsInOrder) {
  Loop loop = Loop::open().value();
  Background background(loop);
  EXPECT_TRUE(background.finish(Deadline::in(0ms)));  // nothing to do
  std::atomic<bool> go = false;
  std::vector<int> jobs, told;
  for (int i = 0; i < 3; ++i)
    background.run(
        [&, i]() -> Status {
          for (const Deadline most = Deadline::in(20s); !go && !most.passed();) pause(1ms);
          jobs.push_back(i);
          return {};
        },
        [&, i](const Status&) { told.push_back(i); });
  EXPECT_FALSE(background.finish(Deadline::in(10ms)));
  EXPECT_TRUE(told.empty());
  go = true;
  EXPECT_TRUE(background.finish(Deadline::in(10s)));
  EXPECT_EQ(jobs, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(told, jobs);
}

TEST(Background, NobodyWaitsForAJobThatHangs) {
  Loop loop = Loop::open().value();
  const auto go = std::make_shared<std::atomic<bool>>(false);
  const auto begun = std::make_shared<std::atomic<bool>>(false);
  const auto ended = std::make_shared<std::atomic<int>>(0);
  bool told = false;
  const auto begin = std::chrono::steady_clock::now();
  {
    Background background(loop);
    for (int i = 0; i < 2; ++i)
      background.run(
          [go, begun, ended]() -> Status {
            *begun = true;
            for (const Deadline most = Deadline::in(20s); !*go && !most.passed();) pause(1ms);
            return ++*ended, Status();
          },
          [&](const Status&) { told = true; });
    EXPECT_TRUE(test::until([&] { return begun->load(); }, 20s));
    EXPECT_FALSE(background.finish(Deadline::in(20ms)));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 5s);
  *go = true;
  for (const Deadline most = Deadline::in(10s); *ended == 0 && !most.passed();) pause(1ms);
  for (int i = 0; i < 20; ++i) loop.run_once(Deadline::in(1ms));
  EXPECT_EQ(*ended, 1) << "the second one is dropped";
  EXPECT_FALSE(told);
}

TEST(Background, WhatAJobLogsIsSaidOnTheLoop) {
  Loop loop = Loop::open().value();
  std::string said;
  const LogSink sink([&, loop_thread = std::this_thread::get_id()](std::string_view lines) {
    EXPECT_EQ(std::this_thread::get_id(), loop_thread);
    said += lines;
  });
  Background background(loop);
  background.run(
      []() -> Status {
        log_warning("one");
        log_warning("two");
        return {};
      },
      [&](const Status&) { said += "done"; });
  EXPECT_TRUE(background.finish(Deadline::in(10s)));
  EXPECT_EQ(said, "lockstep: warning: one\nlockstep: warning: two\ndone");
}

}  // namespace
}  // namespace lockstep::launcher

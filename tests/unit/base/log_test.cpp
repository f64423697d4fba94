#include "base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <set>

#include "base/told_wait.h"

namespace lockstep {
namespace {

using testing::HasSubstr;

template <class F>
std::string said(F&& say) {
  testing::internal::CaptureStderr();
  say();
  return testing::internal::GetCapturedStderr();
}

TEST(LogOnce, TheSameIsSaidOnceInAProcess) {
  EXPECT_EQ(said([] { log_once("first"); }), "lockstep: first\n");
  EXPECT_EQ(said([] { log_once("first"); }), "");
  EXPECT_EQ(said([] { log_once("told", LogLevel::kWarning, "key"); }), "lockstep: warning: told\n");
  EXPECT_EQ(said([] { log_once("in other words", LogLevel::kInfo, "key"); }), "");
}

// As with a board that two processes see, of which this is the second.
TEST(LogOnce, OfSeveralProcessesTheFirstSaysIt) {
  std::set<std::uint64_t> claimed;
  set_line_claims([&](std::uint64_t key) {
    EXPECT_TRUE(claimed.insert(key).second) << "asked for once";
    return claimed.size() > 1;
  });
  EXPECT_EQ(said([] { log_once("another's"); }), "");
  EXPECT_EQ(said([] { log_once("ours"); }), "lockstep: ours\n");
  EXPECT_EQ(said([] { log_once("another's"), log_once("ours"); }), "");
  set_line_claims({});
}

TEST(LineRoom, IsTheRunsOrElseOnesOwn) {
  const auto taken = [](LineRoom& room) {
    int lines = 0;
    while (room.take()) ++lines;
    return lines;
  };
  LineRoom alone("kind", 3), again("kind", 3);
  EXPECT_EQ(taken(alone), 3);
  EXPECT_EQ(taken(again), 3);
  std::set<std::uint64_t> claimed;
  set_line_claims([&](std::uint64_t key) { return claimed.insert(key).second; });
  LineRoom first("kind", 3), second("kind", 3), other("other kind", 2);
  EXPECT_TRUE(first.take());
  EXPECT_EQ(taken(second), 2);
  EXPECT_EQ(taken(first), 0);
  EXPECT_EQ(taken(other), 2);
  set_line_claims({});
}

TEST(ToldWait, SaysForWhomAndHowLongAndThenLessOften) {
  const auto lines = [](int pauses) {
    ToldWait wait([] { return "process 12"; }, std::chrono::milliseconds(100));
    const std::string text = said([&] {
      for (int i = 0; i < pauses; ++i) wait.pause();
    });
    return std::count(text.begin(), text.end(), '\n');
  };
  EXPECT_EQ(lines(1), 0);
  EXPECT_GE(lines(3), 1);
  EXPECT_LE(lines(12), 4) << "after 0.1, 0.2, 0.4 s, not at each look";
}

}  // namespace
}  // namespace lockstep

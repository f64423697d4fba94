// A worker's failure, told to other nodes: what was written comes through, and never too much.
#include "launcher/nodes/root_cause.h"

#include <gmock/gmock.h>

#include <limits>

namespace lockstep::launcher {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

WorkerFailure with_file(const std::string& text) {
  WorkerFailure failure;
  failure.rank = 5;
  failure.local_rank = 1;
  failure.pid = 77;
  failure.exit_code = -11;
  failure.time_s = 1'700'000'000.5;
  failure.error_file = "/logs/error.json";
  failure.error_text = text;
  read_error_file(text, failure);
  return failure;
}

TEST(RootCause, ComesThroughWithItsFile) {
  const WorkerFailure before = with_file(
      R"({"message":{"message":"E: x","extraInfo":{"py_callstack":"stack","timestamp":"77"}}})");
  const WorkerFailure after = failure_of(told(before, "node7"));
  EXPECT_EQ(after.rank, 5);
  EXPECT_EQ(after.local_rank, 1);
  EXPECT_EQ(after.pid, 77);
  EXPECT_EQ(after.exit_code, -11);
  EXPECT_EQ(after.time_s, 77);
  EXPECT_EQ(after.host, "node7");
  EXPECT_EQ(after.error_file, "/logs/error.json");
  EXPECT_EQ(after.message, "stack");
  EXPECT_EQ(root_cause_text(after), root_cause_text(before));
  EXPECT_THAT(failure_report("prog", {after}, 0), HasSubstr("host      : node7\n"));
}

TEST(RootCause, IsBounded) {
  const std::string big(1 << 20, 'x');
  const auto failed = told(with_file(R"({"message":")" + big + R"( the end"})"), "node7");
  EXPECT_FALSE(failed.is_file);
  EXPECT_LT(failed.text.size(), kMostText + 100);
  EXPECT_THAT(failed.text, EndsWith("xx the end"));
  // The same file, cut once more: the message, and no half a file.
  auto less = told(with_file(R"({"message":")" + std::string(10'000, 'y') + R"( the end"})"), "n");
  EXPECT_TRUE(less.is_file);
  shorten(less, most_text(10'000));
  EXPECT_FALSE(less.is_file);
  EXPECT_LT(less.text.size(), 3500U);
  EXPECT_THAT(failure_of(less).message, EndsWith("yy the end"));
  EXPECT_EQ(most_text(1), kMostText);
  EXPECT_GT(most_text(65'536), 500U);
}

TEST(RootCause, WhateverAWorkerWroteIsTold) {
  for (const std::string text : {"", "{", "[1]", R"({"message":7})", "\xff\x00\x1b[2J"}) {
    const WorkerFailure after = failure_of(told(with_file(text), "n"));
    EXPECT_EQ(after.exit_code, -11);
    EXPECT_FALSE(root_cause_text(after).empty());
  }
  WorkerFailure never = with_file("");
  never.time_s = std::numeric_limits<double>::infinity();
  EXPECT_EQ(told(never, "n").time_ms, 0);
  never.time_s = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(told(never, "n").time_ms, 0);
}

}  // namespace
}  // namespace lockstep::launcher

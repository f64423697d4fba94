#include "lockstep/duration.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace lockstep {
namespace {

using Unit = Duration::Unit;
using testing::HasSubstr;

TEST(Duration, Counts) {
  EXPECT_EQ(*Duration::parse("10ep"), (Duration{Unit::kEpochs, 10, 0}));
  EXPECT_EQ(*Duration::parse("500ba"), (Duration{Unit::kSteps, 500, 0}));
  EXPECT_EQ(*Duration::parse("100000sp"), (Duration{Unit::kSamples, 100000, 0}));
  EXPECT_EQ(Duration::parse("9223372036854775807sp")->count,
            std::numeric_limits<std::int64_t>::max());
  EXPECT_TRUE(Duration::parse("0ep")->none());
}

TEST(Duration, Time) {
  EXPECT_EQ(*Duration::parse("2h30m"), (Duration{Unit::kTime, 0, 9000}));
  EXPECT_EQ(Duration::parse("2h30min")->seconds, 9000);
  EXPECT_EQ(Duration::parse("1.5h")->seconds, 5400);
  EXPECT_EQ(Duration::parse("90min")->seconds, 5400);
  EXPECT_EQ(Duration::parse("1m0.5s")->seconds, 60.5);
  EXPECT_TRUE(Duration::parse("0s")->none());
}

TEST(Duration, ABareNumberIsWhatTheOptionCounts) {
  EXPECT_EQ(*Duration::parse("100", Unit::kSteps), (Duration{Unit::kSteps, 100, 0}));
  EXPECT_EQ(*Duration::parse("3ep", Unit::kSteps), (Duration{Unit::kEpochs, 3, 0}));
  EXPECT_FALSE(Duration::parse("100").ok());
  EXPECT_FALSE(Duration::parse("100", Unit::kTime).ok());
}

TEST(Duration, WhatIsNoneIsAnErrorThatSaysWhatWouldBe) {
  for (const char* text : {"",        "ep",     "-1ep",
                           "-0ba",    "1.5ep",  "10 ep",
                           "10epoch", "ep10",   "9223372036854775808sp",
                           "h",       "2d",     "-1h",
                           "1h-1s",   "1h 30m", "nan",
                           "infs",    "1e400h", "2h30",
                           "+5ba",    "1hba",   "2h2h",
                           "30m2h",   "1m5min"}) {
    const auto duration = Duration::parse(text);
    ASSERT_FALSE(duration.ok()) << text;
    EXPECT_EQ(duration.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(duration.error().message, HasSubstr("'" + std::string(text) + "'"));
    EXPECT_THAT(duration.error().message, HasSubstr("500ba"));
  }
}

TEST(Duration, TextReadsBack) {
  for (const char* text : {"10ep", "500ba", "100000sp", "9000s", "0.25s", "100000s"})
    EXPECT_EQ(Duration::parse(text)->text(), text);
  EXPECT_EQ(Duration::parse("2h30m")->text(), "9000s");
}

}  // namespace
}  // namespace lockstep

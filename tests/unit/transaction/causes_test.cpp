#include "transaction/causes.h"

#include <gtest/gtest.h>

#include <sstream>

namespace lockstep::transaction {
namespace {

using In = Difference::In;

std::string causes(In in, Again by, bool first_step = false, bool hooks = false,
                   bool modes = false) {
  return causes_of({in, modes, "it differs"}, {by, first_step, hooks});
}

bool has(const std::string& text, const char* words) { return text.find(words) != text.npos; }

// What the likeliest cause begins with.
bool first_is(const std::string& text, const std::string& words) {
  return has(text, (" The likeliest first:\n  - " + words).c_str());
}

TEST(Causes, TheLikeliestIsFirst) {
  EXPECT_TRUE(first_is(causes(In::kLoss, Again::kOtherWorker, true), "rank()"));
  EXPECT_TRUE(first_is(causes(In::kGradient, Again::kOtherWorker), "what is kept from step to "));
  EXPECT_TRUE(first_is(causes(In::kSum, Again::kSameWorker), "a counter"));
  EXPECT_TRUE(first_is(causes(In::kRow, Again::kNewcomer), "what only those have who were there"));
  EXPECT_TRUE(first_is(causes(In::kBuffer, Again::kSameWorker), "a module's member that is no "));
  EXPECT_TRUE(first_is(causes(In::kLoss, Again::kOtherHost, true), "another build of the program"));
  EXPECT_TRUE(first_is(causes(In::kLoss, Again::kOtherHost), "what is kept from step to step"));
  EXPECT_TRUE(first_is(causes(In::kState, Again::kNewcomer), "the loop, behind run()"));
  EXPECT_TRUE(first_is(causes(In::kState, Again::kNewcomer, false, true), "a hook (on_update())"));
}

TEST(Causes, WhatCannotBeIsNoneOfThem) {
  const std::string alone = causes(In::kLoss, Again::kSameWorker);
  EXPECT_FALSE(has(alone, "rank()")) << alone;
  EXPECT_FALSE(has(alone, "a data loader")) << alone;
  EXPECT_FALSE(has(causes(In::kState, Again::kNewcomer), "on_update()) that reads"));
  EXPECT_FALSE(has(causes(In::kLoss, Again::kNewcomer), "behind run()"));
  EXPECT_EQ(causes(In::kLoss, Again::kOtherWorker, false, false, true), kSetModesAlike);
}

TEST(Causes, LinesAreShortAndEndWithThePage) {
  for (const In in : {In::kState, In::kLoss})
    for (const Again by :
         {Again::kOtherWorker, Again::kSameWorker, Again::kNewcomer, Again::kOtherHost})
      for (const bool on : {false, true}) {
        std::istringstream lines(causes(in, by, on, on));
        std::string line;
        while (std::getline(lines, line)) EXPECT_LE(line.size(), 130U) << line;
        EXPECT_EQ(line.rfind("  docs/guide/own_loop.md, \"", 0), 0U) << line;
      }
}

}  // namespace
}  // namespace lockstep::transaction

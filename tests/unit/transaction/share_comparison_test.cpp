#include "transaction/share_comparison.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace lockstep::transaction {
namespace {

using In = Difference::In;

const NamesOfWords kNames{[](std::size_t i) { return "module " + std::to_string(i); },
                          [](std::size_t i) { return "tensor " + std::to_string(i); },
                          [](std::size_t i) { return "parameter " + std::to_string(i); },
                          [](std::size_t i) { return "row " + std::to_string(i); },
                          [](std::size_t i) { return "buffer " + std::to_string(i); }};

// Of one share, with words of its own.
struct Computed {
  explicit Computed(const char* where) {
    share.where = where;
    share.loss = {0.5, 2};
    share.training = words[0];
    share.state = words[1];
    share.gradients = words[2];
    share.rows = words[3];
    share.buffers = words[4];
  }
  std::vector<std::vector<coord::Word>> words = make();
  ComputedShare share;

 private:
  static std::vector<std::vector<coord::Word>> make() {
    std::vector<std::vector<coord::Word>> all;
    for (int i = 0; i < 5; ++i) all.emplace_back(2);
    return all;
  }
};

struct Both {
  Computed first{"here"}, second{"there"};
  std::optional<Difference> difference() const {
    return first_difference(first.share, second.share, 3, kNames);
  }
};

TEST(ShareComparison, OfTheSameThereIsNone) {
  Both both;
  EXPECT_EQ(both.difference(), std::nullopt);
  both.first.share.loss.mean = both.second.share.loss.mean =
      std::numeric_limits<double>::quiet_NaN();
  both.first.words[0][1] = 4;  // a mode that makes no difference
  EXPECT_EQ(both.difference(), std::nullopt);
  both.first.share.rows = {};  // not known
  both.second.words[3][0] = 1;
  EXPECT_EQ(both.difference(), std::nullopt);
}

// From what comes last: each hides what was told before.
TEST(ShareComparison, WhatExplainsTheRestIsTold) {
  Both both;
  const auto expect = [&](In in, const std::string& text) {
    const auto differs = both.difference();
    ASSERT_TRUE(differs.has_value()) << text;
    EXPECT_EQ(differs->in, in) << text;
    EXPECT_EQ(differs->text, text);
  };
  both.second.words[4][1] = 1;
  expect(In::kBuffer,
         "what virtual worker 3 leaves in buffer 1 has other bits here than there, "
         "though its loss is the same, 0.5");
  both.second.words[3][1] = 1;
  expect(In::kRow, "what virtual worker 3 carries as row 1 has other bits here than there");
  both.first.share.ends = true;
  expect(In::kEnd, "the share of virtual worker 3 ends the run here and goes on there");
  both.second.share.sums.add("a", {1.5, 2});
  expect(In::kSum, "what virtual worker 3 adds up as 'a' is nothing here and 1.5 of 2 there");
  both.first.words[2][0] = 1;
  expect(In::kGradient,
         "the gradient of parameter 0 of virtual worker 3 has other bits here than there, though "
         "its loss is the same, 0.5");
  both.second.share.loss = {};
  expect(In::kLoss, "the loss of virtual worker 3 is 0.5 here and none (it took no part) there");
  both.first.words[1][1] = 1;
  expect(In::kState, "the train states differ: tensor 1 has other bits here than there");
  EXPECT_FALSE(both.difference()->modes);
  both.first.words[0][1] = 4;
  expect(In::kState,
         "module 66 is in eval() there, and trains here; the train states differ: tensor 1 "
         "has other bits here than there");
  EXPECT_TRUE(both.difference()->modes);
}

}  // namespace
}  // namespace lockstep::transaction

// What resized() does beside scaling, whose bits tests/recipes/mnist_torchrun.py compares with
// Python's.
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;

std::shared_ptr<const Dataset> pictures(const at::Tensor& inputs) {
  return *tensor_dataset(inputs, at::zeros({inputs.size(0)}, at::kLong));
}

Batch first_two(const Dataset& set) {
  const std::vector<std::int64_t> ids{0, 1};
  return *set.get(ids, {});
}

const at::Tensor kInputs = at::arange(2 * 16, at::kFloat).reshape({2, 1, 4, 4});

TEST(Resized, OtherSizesAreScaledAndTheOwnIsLeftAlone) {
  const Batch larger = first_two(**resized(pictures(kInputs), 8, 6));
  EXPECT_EQ(larger.inputs.sizes(), (std::vector<std::int64_t>{2, 1, 8, 6}));
  EXPECT_EQ(larger.ids, (std::vector<std::int64_t>{0, 1}));
  const Batch own = first_two(**resized(pictures(kInputs), 4, 4));
  EXPECT_TRUE(at::equal(own.inputs, kInputs));
}

TEST(Resized, AnotherSizeIsAnotherSet) {
  EXPECT_NE((*resized(pictures(kInputs), 8, 8))->fingerprint(),
            (*resized(pictures(kInputs), 8, 6))->fingerprint());
}

// As damaged pictures leave it, in an evaluation.
TEST(Resized, ABatchOfWhichNothingIsLeftStaysEmpty) {
  const auto nothing = *tensor_dataset(kInputs, at::zeros({2}, at::kLong),
                                       [](const Batch&, const Pass&) { return Batch{}; });
  EXPECT_EQ(first_two(**resized(nothing, 8, 8)).size(), 0);
}

TEST(Resized, WhatIsNoPictureOrNoSizeIsAnError) {
  const std::vector<std::int64_t> ids{0};
  for (const at::Tensor& other : {kInputs.flatten(1), kInputs.to(at::kLong)}) {
    const auto batch = (*resized(pictures(other), 8, 8))->get(ids, {});
    ASSERT_FALSE(batch.ok());
    EXPECT_EQ(batch.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(batch.error().message, HasSubstr("pictures are Float of 4: [B, C, H, W]"));
  }
  for (const std::int64_t side : {0, 4097}) {
    const auto set = resized(pictures(kInputs), 8, side);
    ASSERT_FALSE(set.ok());
    EXPECT_THAT(set.error().message, HasSubstr("1 to 4096"));
  }
  EXPECT_FALSE(resized(nullptr, 8, 8).ok());
}

}  // namespace
}  // namespace lockstep::data

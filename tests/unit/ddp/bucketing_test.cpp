#include "ddp/bucketing.h"

#include <gtest/gtest.h>

namespace lockstep::ddp {
namespace {

using comm::DType;

// Each parameter lies in one bucket of its dtype, whole, and none over another.
void expect_sound(const std::vector<ParameterSpec>& parameters, const BucketLayout& layout) {
  ASSERT_EQ(layout.places.size(), parameters.size());
  ASSERT_EQ(layout.members.size(), layout.buckets.size());
  std::vector<int> seen(parameters.size());
  for (std::uint32_t b = 0; b < layout.buckets.size(); ++b) {
    std::uint64_t last = 0;
    for (const std::uint32_t p : layout.members[b]) {
      const Place place = layout.places[p];
      EXPECT_EQ(place.bucket, b);
      EXPECT_EQ(parameters[p].dtype, layout.buckets[b].dtype);
      EXPECT_EQ(parameters[p].optimizers, layout.optimizers[b]);
      EXPECT_EQ(place.offset * comm::size_of(parameters[p].dtype) % 64, 0U);
      EXPECT_GE(place.offset, last);
      last = place.offset + parameters[p].count;
      ++seen[p];
    }
    EXPECT_LE(last, layout.buckets[b].count);
  }
  for (const int times : seen) EXPECT_EQ(times, 1);
}

TEST(Bucketing, LastParametersComeFirstInAFirstBucketOfOneMebibyte) {
  const std::vector<ParameterSpec> parameters(40, {DType::kFloat32, 100'000});  // 400 kB each
  const BucketLayout layout = assign_buckets(parameters, {});
  expect_sound(parameters, layout);
  ASSERT_EQ(layout.buckets.size(), 2U);
  EXPECT_EQ(layout.members[0].front(), 39U);
  EXPECT_LE(layout.members[0].size(), 3U);
}

TEST(Bucketing, DtypesAreKeptApartAndEmptyAndHugeOnesHaveTheirPlace) {
  const std::vector<ParameterSpec> parameters{{DType::kFloat32, 10},         {DType::kFloat64, 3},
                                              {DType::kFloat32, 0},          {DType::kBFloat16, 33},
                                              {DType::kFloat32, 20'000'000}, {DType::kFloat64, 1}};
  expect_sound(parameters, assign_buckets(parameters, {}));
  expect_sound(parameters, assign_buckets(parameters, {64, 64}));
}

// The parameters of two networks that take turns: as many buckets as each alone would have.
TEST(Bucketing, EachSetOfOptimizersHasBucketsOfItsOwn) {
  std::vector<ParameterSpec> both, one;
  for (std::uint64_t i = 0; i < 40; ++i) {
    both.push_back({DType::kFloat32, 100'000, std::uint64_t{1} << i % 2});
    if (i % 2 == 0) one.push_back({DType::kFloat32, 100'000, 1});
  }
  both.push_back({DType::kFloat32, 7, 3});
  both.push_back({DType::kFloat32, 7, 0});
  const BucketLayout layout = assign_buckets(both, {});
  expect_sound(both, layout);
  const BucketLayout alone = assign_buckets(one, {});
  EXPECT_EQ(layout.buckets.size(), 2 * alone.buckets.size() + 2);
  std::vector<comm::BucketSpec> of_one;
  for (std::size_t b = 0; b < layout.buckets.size(); ++b)
    if (layout.optimizers[b] == 1) of_one.push_back(layout.buckets[b]);
  EXPECT_EQ(of_one, alone.buckets);
}

}  // namespace
}  // namespace lockstep::ddp

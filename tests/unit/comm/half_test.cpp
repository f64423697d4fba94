#include "comm/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "conformance/oracle.h"

namespace lockstep::comm {
namespace {

using conformance::kBf16;
using conformance::kFp16;

template <class Decode, class Encode>
void check_all_patterns(conformance::HalfFormat format, Decode from, Encode to) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = from(half);
    const double expected = conformance::decode(half, format);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << bits;
      EXPECT_TRUE(std::isnan(conformance::decode(to(value), format))) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), expected) << bits;
    ASSERT_EQ(std::signbit(value), std::signbit(expected)) << bits;
    ASSERT_EQ(to(value), half) << bits;
  }
}

TEST(Half, EveryBf16ValueSurvivesTheWayThereAndBack) {
  check_all_patterns(kBf16, from_bf16, to_bf16);
}
TEST(Half, EveryFp16ValueSurvivesTheWayThereAndBack) {
  check_all_patterns(kFp16, from_fp16, to_fp16);
}

// Around every 16-bit value: itself, the midpoint to the next, and the floats beside both.
template <class From, class To>
void check_rounding(conformance::HalfFormat format, From from, To to) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = from(static_cast<std::uint16_t>(bits));
    const float next = from(static_cast<std::uint16_t>(bits + 1));
    if (!std::isfinite(value)) continue;
    const float middle = std::isfinite(next) ? value / 2 + next / 2
                                             : value * (1 + std::ldexp(1.0F, -format.mantissa - 1));
    for (const float near : {value, middle})
      for (const float x : {near, std::nextafterf(near, 0), std::nextafterf(near, 2 * near)})
        ASSERT_EQ(to(x), conformance::encode(x, format)) << x;
  }
}

TEST(Half, Bf16RoundsToNearestEven) { check_rounding(kBf16, from_bf16, to_bf16); }
TEST(Half, Fp16RoundsToNearestEven) { check_rounding(kFp16, from_fp16, to_fp16); }

TEST(Half, RandomFloatsRoundAsTheOracleSays) {
  for (std::uint64_t i = 0; i < 2'000'000; ++i) {
    const auto bits = static_cast<std::uint32_t>(conformance::mix(i));
    const auto x = std::bit_cast<float>(bits);
    if (std::isnan(x)) continue;
    ASSERT_EQ(to_bf16(x), conformance::encode(x, kBf16)) << bits;
    ASSERT_EQ(to_fp16(x), conformance::encode(x, kFp16)) << bits;
  }
}

TEST(Half, TheEdgesOfFp16) {
  EXPECT_EQ(to_fp16(65519.996F), 0x7bff);
  EXPECT_EQ(to_fp16(65520.0F), 0x7c00);
  EXPECT_EQ(to_fp16(1e30F), 0x7c00);
  EXPECT_EQ(to_fp16(-std::numeric_limits<float>::infinity()), 0xfc00);
  EXPECT_EQ(to_fp16(std::ldexp(1.0F, -25)), 0);  // a tie: to even
  EXPECT_EQ(to_fp16(std::nextafterf(std::ldexp(1.0F, -25), 1.0F)), 1);
  EXPECT_EQ(to_fp16(-0.0F), 0x8000);
  EXPECT_EQ(to_bf16(-0.0F), 0x8000);
}

}  // namespace
}  // namespace lockstep::comm

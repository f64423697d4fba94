// Every instruction set this CPU has, bit by bit against the oracle, at awkward lengths and
// alignments.
#include "comm/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "conformance/oracle.h"

namespace lockstep::comm {
namespace {

using conformance::leaf_value;
using conformance::Values;

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16};
constexpr std::size_t kCounts[] = {0, 1, 2, 7, 15, 16, 17, 31, 33, 63, 64, 65, 1023};

struct Operand {
  Operand(DType dtype, std::size_t count, std::uint32_t leaf, std::size_t shift)
      : memory((count + shift) * size_of(dtype)), data(memory.data() + shift * size_of(dtype)) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t bits = leaf_value(Values::kAdversarial, dtype, 5, leaf, 0, i);
      std::memcpy(data + i * size_of(dtype), &bits, size_of(dtype));
    }
  }
  std::vector<std::byte> memory;
  std::byte* data;
};

std::uint64_t value(DType dtype, std::uint32_t leaf, std::size_t i) {
  return leaf_value(Values::kAdversarial, dtype, 5, leaf, 0, i);
}

template <class Expected>
void expect_elements(DType dtype, const std::byte* data, std::size_t count, Expected expected) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t bits = expected(i);
    ASSERT_EQ(std::memcmp(data + i * size_of(dtype), &bits, size_of(dtype)), 0)
        << "element " << i << " of " << count;
  }
}

// Every place in turn, with the largest numbers around it.
TEST(Kernels, FindWhatIsNotFinite) {
  struct Pattern {
    DType dtype;
    std::uint64_t largest, infinity, nan;
  };
  for (const auto& [dtype, largest, infinity, nan] :
       {Pattern{DType::kFloat32, 0xff7fffff, 0x7f800000, 0xff800001},
        Pattern{DType::kFloat64, 0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000001},
        Pattern{DType::kBFloat16, 0xff7f, 0x7f80, 0xff81},
        Pattern{DType::kFloat16, 0xfbff, 0x7c00, 0xfc01}})
    for (const Isa isa : supported_isas())
      for (const std::size_t count : kCounts) {
        const Kernels& kernels = kernels_for(dtype, isa);
        const std::size_t size = size_of(dtype);
        std::vector<std::byte> memory(count * size);
        for (std::size_t i = 0; i < count; ++i) std::memcpy(&memory[i * size], &largest, size);
        EXPECT_TRUE(kernels.finite(memory.data(), count));
        for (std::size_t i = 0; i < std::min<std::size_t>(count, 70); ++i)
          for (const std::uint64_t bad : {infinity, nan}) {
            std::memcpy(&memory[i * size], &bad, size);
            EXPECT_FALSE(kernels.finite(memory.data(), count)) << i << " of " << count;
            std::memcpy(&memory[i * size], &largest, size);
          }
      }
}

TEST(Kernels, EveryInstructionSetGivesTheOraclesBits) {
  for (const Isa isa : supported_isas())
    for (const DType dtype : kDTypes)
      for (const std::size_t count : kCounts)
        for (const float scale : {1.0F, 1.0F / 3.0F})
          for (const std::size_t shift : {0, 1}) {
            SCOPED_TRACE(testing::Message() << "isa " << static_cast<int>(isa) << " dtype "
                                            << static_cast<int>(dtype));
            const Kernels& kernels = kernels_for(dtype, isa);
            const Operand a(dtype, count, 0, shift), b(dtype, count, 1, 0),
                c(dtype, count, 2, shift);
            Operand out(dtype, count, 3, 0);
            kernels.one(out.data, a.data, count, scale);
            expect_elements(dtype, out.data, count, [&](std::size_t i) {
              return conformance::scale(dtype, value(dtype, 0, i), scale);
            });
            const auto two = [&](std::size_t i) {
              return conformance::add(dtype, value(dtype, 0, i), value(dtype, 1, i));
            };
            kernels.two(out.data, a.data, b.data, count, scale);
            expect_elements(dtype, out.data, count, [&](std::size_t i) {
              return conformance::scale(dtype, two(i), scale);
            });
            kernels.three(out.data, a.data, b.data, c.data, count, scale);
            expect_elements(dtype, out.data, count, [&](std::size_t i) {
              return conformance::scale(dtype, conformance::add(dtype, two(i), value(dtype, 2, i)),
                                        scale);
            });
          }
}

TEST(Kernels, TheResultMayReplaceAnOperand) {
  for (const DType dtype : kDTypes) {
    Operand a(dtype, 1023, 0, 0), b(dtype, 1023, 1, 0);
    const auto sum = [&](std::size_t i) {
      return conformance::add(dtype, value(dtype, 0, i), value(dtype, 1, i));
    };
    Operand left = a, right = b;
    left.data = left.memory.data();
    right.data = right.memory.data();
    kernels_for(dtype).two(left.data, left.data, b.data, 1023, 1.0F);
    expect_elements(dtype, left.data, 1023, sum);
    kernels_for(dtype).two(right.data, a.data, right.data, 1023, 1.0F);
    expect_elements(dtype, right.data, 1023, sum);
  }
}

TEST(Kernels, NaNStaysNaNAndInfinitiesCancelToNaN) {
  for (const Isa isa : supported_isas()) {
    for (const auto& [dtype, nan, infinity, minus] :
         {std::tuple{DType::kBFloat16, 0x7f81, 0x7f80, 0xff80},
          std::tuple{DType::kFloat16, 0x7c01, 0x7c00, 0xfc00}}) {
      const auto format = dtype == DType::kBFloat16 ? conformance::kBf16 : conformance::kFp16;
      const std::vector<std::uint16_t> a(40, static_cast<std::uint16_t>(nan)), b(40, 0x3c00);
      const std::vector<std::uint16_t> c(40, static_cast<std::uint16_t>(infinity)),
          d(40, static_cast<std::uint16_t>(minus));
      std::vector<std::uint16_t> out(40);
      kernels_for(dtype, isa).two(out.data(), a.data(), b.data(), 40, 0.5F);
      for (const std::uint16_t x : out) EXPECT_TRUE(std::isnan(conformance::decode(x, format)));
      kernels_for(dtype, isa).two(out.data(), c.data(), d.data(), 40, 0.5F);
      for (const std::uint16_t x : out) EXPECT_TRUE(std::isnan(conformance::decode(x, format)));
      kernels_for(dtype, isa).two(out.data(), c.data(), b.data(), 40, 0.5F);
      for (const std::uint16_t x : out) EXPECT_EQ(x, infinity);
    }
    const std::vector<float> a(40, std::numeric_limits<float>::quiet_NaN()), b(40, 1.0F);
    std::vector<float> out(40);
    kernels_for(DType::kFloat32, isa).two(out.data(), a.data(), b.data(), 40, 0.5F);
    for (const float x : out) EXPECT_TRUE(std::isnan(x));
  }
}

TEST(Kernels, AScaleOfOneKeepsMinusZeroAndSignallingBits) {
  const std::vector<std::uint32_t> bits{0x80000000U, 0x7f800001U, 0xffc12345U, 1U};
  std::vector<std::uint32_t> out(bits.size());
  for (const Isa isa : supported_isas()) {
    kernels_for(DType::kFloat32, isa).one(out.data(), bits.data(), bits.size(), 1.0F);
    EXPECT_EQ(out, bits);
  }
}

TEST(Kernels, StreamCopiesAnyLength) {
  std::vector<std::byte> from(1000);
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<std::byte>(conformance::mix(i));
  alignas(64) std::byte to[1064];
  for (const std::size_t bytes : {0, 1, 63, 64, 65, 128, 999}) {
    std::memset(to, 0x55, sizeof to);
    stream(to, from.data() + 1, bytes);
    stream_fence();
    EXPECT_EQ(std::memcmp(to, from.data() + 1, bytes), 0);
    EXPECT_EQ(to[bytes], std::byte{0x55});
  }
}

}  // namespace
}  // namespace lockstep::comm

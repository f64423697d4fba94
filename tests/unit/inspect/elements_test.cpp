#include "inspect/checkpoint/elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "support/python.h"
#include "support/temp_folder.h"

namespace lockstep::inspect {
namespace {

using checkpoint::DType;

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

double one(DType dtype, std::uint16_t bits) {
  return checkpoint::size_of(dtype) == 1
             ? sum_of(dtype, bytes_of<std::uint8_t>({static_cast<std::uint8_t>(bits)}))
             : sum_of(dtype, bytes_of<std::uint16_t>({bits}));
}

TEST(Elements, WholeNumbersAndFloats) {
  EXPECT_EQ(sum_of(DType::kI8, bytes_of<std::int8_t>({-3, 1})), -2);
  EXPECT_EQ(sum_of(DType::kU64, bytes_of<std::uint64_t>({1ULL << 40})), 1099511627776.0);
  EXPECT_EQ(sum_of(DType::kF32, bytes_of<float>({0.5F, 0.25F})), 0.75);
  EXPECT_EQ(sum_of(DType::kBool, bytes_of<std::uint8_t>({1, 0, 1})), 2);
  EXPECT_EQ(sum_of(DType::kF64, {}), 0);
}

TEST(Elements, SmallFloats) {
  EXPECT_EQ(one(DType::kF16, 0x3C00), 1);
  EXPECT_EQ(one(DType::kF16, 0xC000), -2);
  EXPECT_EQ(one(DType::kF16, 0x0001), 0x1p-24);
  EXPECT_EQ(one(DType::kF16, 0x7C00), HUGE_VAL);
  EXPECT_TRUE(std::isnan(one(DType::kF16, 0x7E00)));
  EXPECT_EQ(one(DType::kBF16, 0x3F80), 1);
  EXPECT_EQ(one(DType::kBF16, 0x0001), std::ldexp(1.0, -133));
  EXPECT_EQ(one(DType::kF8E5M2, 0x3C), 1);
  EXPECT_EQ(one(DType::kF8E5M2, 0xFC), -HUGE_VAL);
  EXPECT_EQ(one(DType::kF8E4M3, 0x38), 1);
  EXPECT_EQ(one(DType::kF8E4M3, 0x7E), 448);
  EXPECT_EQ(one(DType::kF8E4M3, 0x81), -0x1p-9);
  EXPECT_TRUE(std::isnan(one(DType::kF8E4M3, 0xFF)));
}

// Every bit pattern, as torch reads it.
TEST(Elements, SmallFloatsAreTorchs) {
  const std::string python = test::python_with("torch");
  if (python.empty()) GTEST_SKIP() << "no Python with torch; set LOCKSTEP_PYTHON";
  const test::TempFolder folder;
  const std::string script = folder.write("all.py", R"(import torch
for dtype in (torch.float16, torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn):
    bits = torch.uint8 if dtype.itemsize == 1 else torch.uint16
    patterns = torch.arange(256**dtype.itemsize).to(bits).view(dtype)
    for value in patterns.double().tolist():
        print(value.hex())
)");
  std::istringstream expected(test::output_of(python + " " + script));
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF8E5M2, DType::kF8E4M3})
    for (unsigned bits = 0; bits < (checkpoint::size_of(dtype) == 1 ? 256U : 65536U); ++bits) {
      std::string line;
      ASSERT_TRUE(std::getline(expected, line));
      const double theirs = std::strtod(line.c_str(), nullptr);
      const double ours = one(dtype, static_cast<std::uint16_t>(bits));
      ASSERT_TRUE(theirs == ours || (std::isnan(theirs) && std::isnan(ours))) << bits;
    }
}

TEST(Elements, DifferencesAreOfBitsAndOfNumbers) {
  const auto a = bytes_of<float>({1, 2, 0.0F}), b = bytes_of<float>({1, 2.5, -0.0F});
  const Difference difference = compare(DType::kF32, a, b);
  EXPECT_EQ(difference.elements, 3U);
  EXPECT_EQ(difference.differing, 2U);  // minus zero has other bits
  EXPECT_EQ(difference.largest, 0.5);
  EXPECT_EQ(compare(DType::kF32, a, a).differing, 0U);
}

TEST(Elements, ANanThatDiffersIsNotLostInLaterValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto a = bytes_of<float>({nan, 1, nan}), b = bytes_of<float>({0, 9, nan});
  const Difference difference = compare(DType::kF32, a, b);
  EXPECT_EQ(difference.differing, 2U);
  EXPECT_TRUE(std::isnan(difference.largest));
}

}  // namespace
}  // namespace lockstep::inspect

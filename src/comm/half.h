// Conversions between fp32 and the 16-bit formats, round to nearest even, free of branches so that
// loops over them vectorise. NaN stays NaN (payloads are not kept). The fp16 ones follow F.
// Giesen's float_to_half_fast3_rtne and half_to_float (public domain, 2012). Independent of the
// CPU's own conversion instructions: one code, one result.
#pragma once

#include <bit>
#include <cstdint>

namespace lockstep::comm {

[[gnu::always_inline]] inline float from_bf16(std::uint16_t value) {
  return std::bit_cast<float>(std::uint32_t{value} << 16);
}

[[gnu::always_inline]] inline std::uint16_t to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const std::uint32_t quiet = (bits >> 16) | 0x40U;
  const bool nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return static_cast<std::uint16_t>(nan ? quiet : rounded);
}

[[gnu::always_inline]] inline float from_fp16(std::uint16_t value) {
  constexpr std::uint32_t kExponent = 0x7c00U << 13;
  const std::uint32_t shifted = (std::uint32_t{value} & 0x7fffU) << 13;
  const std::uint32_t exponent = shifted & kExponent;
  const std::uint32_t normal = shifted + ((127U - 15U) << 23);
  const std::uint32_t special = normal + ((128U - 16U) << 23);  // infinity, NaN
  const float subnormal =
      std::bit_cast<float>(normal + (1U << 23)) - std::bit_cast<float>(113U << 23);
  const std::uint32_t finite = exponent == 0 ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  const std::uint32_t magnitude = exponent == kExponent ? special : finite;
  return std::bit_cast<float>(magnitude | (std::uint32_t{value} & 0x8000U) << 16);
}

[[gnu::always_inline]] inline std::uint16_t to_fp16(float value) {
  constexpr std::uint32_t kTooLarge = (127U + 16U) << 23;  // 65536
  constexpr std::uint32_t kLeastNormal = 113U << 23;       // 2^-14
  // Its unit in the last place is fp16's least subnormal.
  constexpr std::uint32_t kMagic = (127U - 15U + 13U + 1U) << 23;
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  const std::uint32_t large = magnitude > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const float shifted = std::bit_cast<float>(magnitude) + std::bit_cast<float>(kMagic);
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - kMagic;
  const std::uint32_t normal =
      (magnitude - ((127U - 15U) << 23) + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
  const std::uint32_t small = magnitude < kLeastNormal ? subnormal : normal;
  const std::uint32_t result = magnitude >= kTooLarge ? large : small;
  return static_cast<std::uint16_t>(result | (bits >> 16 & 0x8000U));
}

}  // namespace lockstep::comm

// What sums must be: values by formula, the tree by naive recursion, 16-bit rounding by exact
// arithmetic in double. Shares nothing with the code under test.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "comm/exchange.h"
#include "coord/tree.h"

namespace lockstep::conformance {

using comm::DType;

// The 16-bit formats: exponent and mantissa bits.
struct HalfFormat {
  int mantissa, bias;
};
inline constexpr HalfFormat kBf16{7, 127};
inline constexpr HalfFormat kFp16{10, 15};

inline double decode(std::uint16_t bits, HalfFormat f) {
  const int exponent = (bits & 0x7fff) >> f.mantissa;
  const int mantissa = bits & ((1 << f.mantissa) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (0x7fff >> f.mantissa))
    return mantissa != 0 ? std::numeric_limits<double>::quiet_NaN()
                         : sign * std::numeric_limits<double>::infinity();
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - f.bias - f.mantissa);
  return sign * std::ldexp(mantissa + (1 << f.mantissa), exponent - f.bias - f.mantissa);
}

// Nearest, ties to even; fp32 in, so double holds everything exactly.
inline std::uint16_t encode(float value, HalfFormat f) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const std::uint16_t infinity = static_cast<std::uint16_t>((0x7fff >> f.mantissa) << f.mantissa);
  if (std::isnan(value)) return static_cast<std::uint16_t>(sign | infinity | 1 << (f.mantissa - 1));
  const double magnitude = std::fabs(static_cast<double>(value));
  if (std::isinf(magnitude)) return static_cast<std::uint16_t>(sign | infinity);
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), 1 - f.bias);
  // In units of the last place; a carry out of the mantissa grows the exponent, as it should.
  const auto units =
      static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, f.mantissa - exponent)));
  const std::uint32_t bits =
      (static_cast<std::uint32_t>(exponent + f.bias - 1) << f.mantissa) + units;
  return static_cast<std::uint16_t>(sign | std::min<std::uint32_t>(bits, infinity));
}

// One element, as its bytes in the low end.
template <class T>
T of_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
std::uint64_t bits_of(T value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

// The bits of op(get), which gets numbers from their bits: halves as float32, to which they are
// rounded once.
template <class Op>
std::uint64_t computed(DType dtype, const Op& op) {
  const auto half = [&](HalfFormat f) -> std::uint64_t {
    return encode(op([f](std::uint64_t bits) {
                    return static_cast<float>(decode(static_cast<std::uint16_t>(bits), f));
                  }),
                  f);
  };
  switch (dtype) {
    case DType::kBFloat16:
      return half(kBf16);
    case DType::kFloat16:
      return half(kFp16);
    case DType::kFloat32:
      return bits_of(op(of_bits<float>));
    case DType::kFloat64:
      return bits_of(op(of_bits<double>));
  }
  return 0;
}

inline std::uint64_t add(DType dtype, std::uint64_t a, std::uint64_t b) {
  return computed(dtype, [&](const auto& get) { return get(a) + get(b); });
}

inline std::uint64_t scale(DType dtype, std::uint64_t a, float factor) {
  if (factor == 1.0F) return a;
  return computed(dtype, [&](const auto& get) { return get(a) * factor; });
}

inline std::uint64_t mix(std::uint64_t x) {  // splitmix64's finaliser (Steele et al., 2014)
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// How a leaf's elements are made.
enum class Values {
  kIntegers,  // (leaf + 1) × (i % 7 + 1): the sum is exact in any order, V (V + 1) / 2 × (i % 7 +
              // 1)
  kAdversarial,  // all signs, wide exponents, subnormals, zeros of both signs: any other order
                 // shows; in every second transaction infinities in some buckets
};

inline std::uint64_t from_double(DType dtype, double value) {
  return computed(dtype, [&](const auto& get) { return static_cast<decltype(get(0))>(value); });
}

inline bool is_finite(DType dtype, std::uint64_t value) {
  const std::uint64_t infinity = from_double(dtype, std::numeric_limits<double>::infinity());
  return (value & infinity) != infinity;
}

inline std::uint64_t leaf_value(Values values, DType dtype, std::uint64_t txn, std::uint32_t leaf,
                                std::uint32_t bucket, std::uint64_t i) {
  if (values == Values::kIntegers)
    return from_double(dtype, (leaf + 1.0) * (static_cast<double>(i % 7) + 1.0));
  if (txn % 2 == 1 && bucket % 3 == 2 && leaf == txn % 3 && i == txn % 71)
    return from_double(dtype, std::numeric_limits<double>::infinity());
  const std::uint64_t random = mix(((txn * 131 + leaf) * 131 + bucket) * 1000003 + i);
  const auto mantissa = static_cast<double>(random >> 40) + 0.5;
  const bool tiny = random % 13 == 0;
  const int exponent =
      static_cast<int>(random >> 8 & 15) - (tiny ? (dtype == DType::kFloat16 ? 46 : 160) : 30);
  const double magnitude = random % 17 == 0 ? 0.0 : std::ldexp(mantissa, exponent);
  return from_double(dtype, (random & 1) != 0 ? -magnitude : magnitude);
}

// Element i of a node's value.
inline std::uint64_t node_value(Values values, DType dtype, std::uint64_t txn,
                                std::uint32_t virtual_workers, coord::Node node,
                                std::uint32_t bucket, std::uint64_t i) {
  if (node.level == 0) return leaf_value(values, dtype, txn, node.index, bucket, i);
  const coord::Node left{node.level - 1, node.index * 2};
  const coord::Node right{node.level - 1, node.index * 2 + 1};
  const std::uint64_t value = node_value(values, dtype, txn, virtual_workers, left, bucket, i);
  if (right.first_leaf() >= virtual_workers) return value;
  return add(dtype, value, node_value(values, dtype, txn, virtual_workers, right, bucket, i));
}

inline coord::Node root_of(std::uint32_t virtual_workers) {
  std::uint32_t level = 0;
  while ((1U << level) < virtual_workers) ++level;
  return {level, 0};
}

}  // namespace lockstep::conformance

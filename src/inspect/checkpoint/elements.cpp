#include "inspect/checkpoint/elements.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace lockstep::inspect {
namespace {

using checkpoint::DType;

double as_is(auto value) { return static_cast<double>(value); }

// IEEE 754 with so many bits of exponent and fraction.
double small_float(std::uint32_t bits, int exponent_bits, int fraction_bits) {
  const std::uint32_t fraction = bits & ((1U << fraction_bits) - 1);
  const auto exponent = static_cast<int>((bits >> fraction_bits) & ((1U << exponent_bits) - 1));
  const int most = (1 << exponent_bits) - 1, bias = most / 2;
  const double sign = (bits >> (exponent_bits + fraction_bits)) != 0 ? -1 : 1;
  if (exponent == most)
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  const std::uint32_t whole = exponent == 0 ? fraction : fraction | (1U << fraction_bits);
  return sign * std::ldexp(whole, (exponent == 0 ? 1 : exponent) - bias - fraction_bits);
}

// "FN": no infinities, one NaN of each sign (Micikevicius et al., FP8 Formats, 2022).
double f8_e4m3(std::uint8_t bits) {
  if ((bits & 0x7F) == 0x7F) return std::nan("");
  const int exponent = (bits >> 3) & 15, fraction = bits & 7;
  const double value =
      exponent == 0 ? std::ldexp(fraction, -9) : std::ldexp(8 + fraction, exponent - 10);
  return (bits & 0x80) != 0 ? -value : value;
}

double f8_e5m2(std::uint8_t bits) { return small_float(bits, 5, 2); }
double f16(std::uint16_t bits) { return small_float(bits, 5, 10); }
double bf16(std::uint16_t bits) { return small_float(bits, 8, 7); }

// Calls f(T{}, to_double) with the element's type and what makes a double of it.
template <class F>
auto visit(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return f(std::uint8_t{}, as_is<std::uint8_t>);
    case DType::kI8:
      return f(std::int8_t{}, as_is<std::int8_t>);
    case DType::kF8E5M2:
      return f(std::uint8_t{}, f8_e5m2);
    case DType::kF8E4M3:
      return f(std::uint8_t{}, f8_e4m3);
    case DType::kI16:
      return f(std::int16_t{}, as_is<std::int16_t>);
    case DType::kU16:
      return f(std::uint16_t{}, as_is<std::uint16_t>);
    case DType::kF16:
      return f(std::uint16_t{}, f16);
    case DType::kBF16:
      return f(std::uint16_t{}, bf16);
    case DType::kI32:
      return f(std::int32_t{}, as_is<std::int32_t>);
    case DType::kU32:
      return f(std::uint32_t{}, as_is<std::uint32_t>);
    case DType::kF32:
      return f(float{}, as_is<float>);
    case DType::kF64:
      return f(double{}, as_is<double>);
    case DType::kI64:
      return f(std::int64_t{}, as_is<std::int64_t>);
    case DType::kU64:
    case DType::kOpaque:  // never asked for
      break;
  }
  return f(std::uint64_t{}, as_is<std::uint64_t>);
}

template <class T>
T element(std::span<const std::byte> bytes, std::size_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

double sum_of(DType dtype, std::span<const std::byte> bytes) {
  return visit(dtype, [&]<class T>(T, auto to_double) {
    double sum = 0;
    for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i)
      sum += to_double(element<T>(bytes, i));
    return sum;
  });
}

Difference compare(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b) {
  return visit(dtype, [&]<class T>(T, auto to_double) {
    Difference difference;
    difference.elements = a.size() / sizeof(T);
    for (std::size_t i = 0; i < difference.elements; ++i) {
      if (std::memcmp(a.data() + i * sizeof(T), b.data() + i * sizeof(T), sizeof(T)) == 0) continue;
      ++difference.differing;
      const double apart = std::fabs(to_double(element<T>(a, i)) - to_double(element<T>(b, i)));
      // Once NaN, it stays so: no comparison with it is true.
      if (std::isnan(apart) || apart > difference.largest) difference.largest = apart;
    }
    return difference;
  });
}

}  // namespace lockstep::inspect

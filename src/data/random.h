// Random numbers for drawing pictures: SplitMix64 (Steele, Lea, Flood 2014), keyed, so that picture
// i does not depend on how many were drawn before. Only + - * / on doubles: the same bits on every
// machine.
#pragma once

#include <cstdint>

namespace lockstep::data {

class KeyedRandom {
 public:
  explicit KeyedRandom(std::uint64_t key)
      : state_(mix(key * 0x9E3779B97F4A7C15U + 0x632BE59BD9B4E019U)) {}

  std::uint64_t bits() { return mix(state_ += 0x9E3779B97F4A7C15U); }
  // 0 to n - 1; the bias of the multiplication, n / 2^32, does not matter here.
  std::uint32_t below(std::uint32_t n) {
    return static_cast<std::uint32_t>((bits() >> 32) * n >> 32);
  }
  // In [low, high).
  double uniform(double low, double high) {
    return low + (high - low) * (static_cast<double>(bits() >> 11) * 0x1p-53);
  }
  // Mean 0, deviation 1, within +-3.47: the sum of four uniform 16-bit numbers, which needs no
  // logarithm.
  double bell() {
    const std::uint64_t word = bits();
    const std::uint64_t sum =
        (word & 0xFFFF) + (word >> 16 & 0xFFFF) + (word >> 32 & 0xFFFF) + (word >> 48);
    return (static_cast<double>(sum) - 131070.0) * (1.0 / 37837.2);
  }

 private:
  static std::uint64_t mix(std::uint64_t z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
  }
  std::uint64_t state_;
};

}  // namespace lockstep::data

// Reads memory as the consumer of a sum does: every byte, once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace lockstep::bench {

// Sum of the 32-bit words, so that no read is left out.
inline std::uint64_t read_all(std::span<const std::byte> bytes) {
  std::uint64_t sums[8] = {};
  std::uint32_t words[8];
  std::size_t at = 0;
  for (; at + sizeof words <= bytes.size(); at += sizeof words) {
    std::memcpy(words, bytes.data() + at, sizeof words);
    for (std::size_t i = 0; i < 8; ++i) sums[i] += words[i];
  }
  for (; at + 4 <= bytes.size(); at += 4) {
    std::memcpy(words, bytes.data() + at, 4);
    sums[0] += words[0];
  }
  for (std::size_t i = 1; i < 8; ++i) sums[0] += sums[i];
  return sums[0];
}

}  // namespace lockstep::bench

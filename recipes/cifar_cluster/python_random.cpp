#include "python_random.h"

#include <array>
#include <bit>
#include <cstddef>

namespace cifar_cluster {
namespace {

// init_by_array with a key of one word: what std::mt19937 takes for a seed sequence.
class ByArray {
 public:
  using result_type = std::uint32_t;
  explicit ByArray(std::uint32_t key) : key_(key) {}

  template <class Iterator>
  void generate(Iterator begin, Iterator end) const {
    constexpr std::uint32_t kWords = std::mt19937::state_size;
    std::array<std::uint32_t, kWords> state{19650218U};
    for (std::uint32_t i = 1; i < kWords; ++i)
      state[i] = 1812433253U * (state[i - 1] ^ state[i - 1] >> 30) + i;
    std::uint32_t i = 1;
    const auto next = [&] {
      if (++i < kWords) return;
      state[0] = state[kWords - 1];
      i = 1;
    };
    const auto mixed = [&](std::uint32_t factor) {
      return state[i] ^ (state[i - 1] ^ state[i - 1] >> 30) * factor;
    };
    for (std::uint32_t k = 0; k < kWords; ++k, next()) state[i] = mixed(1664525U) + key_;
    for (std::uint32_t k = 1; k < kWords; ++k, next()) state[i] = mixed(1566083941U) - i;
    state[0] = 0x80000000U;
    std::size_t at = 0;
    for (; begin != end; ++begin) *begin = state[at++];
  }

 private:
  std::uint32_t key_;
};

std::mt19937 seeded(std::uint32_t seed) {
  ByArray key(seed);
  return std::mt19937(key);
}

}  // namespace

PythonRandom::PythonRandom(std::uint32_t seed) : engine_(seeded(seed)) {}

std::uint32_t PythonRandom::below(std::uint32_t n) {
  const int bits = std::bit_width(n);
  std::uint32_t drawn = 0;
  do {
    drawn = static_cast<std::uint32_t>(engine_()) >> (32 - bits);
  } while (drawn >= n);
  return drawn;
}

}  // namespace cifar_cluster

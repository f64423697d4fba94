#include "models/max_pool_rows.h"

#include <bit>

namespace lockstep::models {

// The loops are written once and compiled for each instruction set; none of them rounds.
#define LOCKSTEP_CLONES __attribute__((target_clones("default", "avx2")))

static inline bool beats(float value, float most) { return (value > most) | (value != value); }

// Selection by masks, so that the loop below has no branch.
static inline std::uint32_t all_if(bool condition) {
  return -static_cast<std::uint32_t>(condition);
}
static inline float chosen(std::uint32_t mask, float yes, float no) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(yes) & mask) |
                              (std::bit_cast<std::uint32_t>(no) & ~mask));
}

LOCKSTEP_CLONES void halve_rows(const float* __restrict upper, const float* __restrict lower,
                                std::int64_t width, float* __restrict out) {
  for (std::int64_t i = 0; i < width; ++i) {
    const float b = upper[2 * i + 1], c = lower[2 * i], d = lower[2 * i + 1];
    float most = upper[2 * i];
    most = beats(b, most) ? b : most;
    most = beats(c, most) ? c : most;
    out[i] = beats(d, most) ? d : most;
  }
}

LOCKSTEP_CLONES void spread_over_rows(const float* __restrict upper, const float* __restrict lower,
                                      const float* __restrict gradient, std::int64_t width,
                                      float* __restrict to_upper, float* __restrict to_lower) {
  for (std::int64_t i = 0; i < width; ++i) {
    const float b = upper[2 * i + 1], c = lower[2 * i], d = lower[2 * i + 1];
    const auto g = std::bit_cast<std::uint32_t>(gradient[i] + 0.0F);
    float most = upper[2 * i];
    const std::uint32_t by_b = all_if(beats(b, most));
    most = chosen(by_b, b, most);
    const std::uint32_t by_c = all_if(beats(c, most));
    most = chosen(by_c, c, most);
    const std::uint32_t by_d = all_if(beats(d, most));
    to_upper[2 * i] = std::bit_cast<float>(g & ~by_b & ~by_c & ~by_d);
    to_upper[2 * i + 1] = std::bit_cast<float>(g & by_b & ~by_c & ~by_d);
    to_lower[2 * i] = std::bit_cast<float>(g & by_c & ~by_d);
    to_lower[2 * i + 1] = std::bit_cast<float>(g & by_d);
  }
}

}  // namespace lockstep::models

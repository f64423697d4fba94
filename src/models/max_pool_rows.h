// The loops of 2x2 max pooling (models/max_pool.h); no libtorch. Threads: any.
#pragma once

#include <cstdint>

namespace lockstep::models {

// Two rows of 2 * `width` pixels become `width` values. ATen's rule (cpu_max_pool): of equal values
// the first in reading order wins, of several NaN the last.
void halve_rows(const float* upper, const float* lower, std::int64_t width, float* out);

// `gradient`, `width` values, goes to the pixel that won, and 0 to the other three. ATen adds it to
// a zero there, and so does this: -0 becomes 0.
void spread_over_rows(const float* upper, const float* lower, const float* gradient,
                      std::int64_t width, float* to_upper, float* to_lower);

}  // namespace lockstep::models

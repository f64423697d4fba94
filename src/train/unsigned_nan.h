// x86 makes NaNs with a sign, which printf shows.
#pragma once

#include <cmath>
#include <limits>

namespace lockstep::training {

// What a program's lines may print by whatever means: a NaN has no sign.
inline double unsigned_nan(double number) {
  return std::isnan(number) ? std::numeric_limits<double>::quiet_NaN() : number;
}

}  // namespace lockstep::training

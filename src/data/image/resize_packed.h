// Weights in two parts of 11 bits each, so that 16-bit multiply-and-add serves: what the across
// kernels of AVX2 and AVX-512 have in common. All sums are of integers, so their order does not
// matter.
#pragma once

#include "data/image/resize_kernels.h"

namespace lockstep::data::image {

inline constexpr int kPartBits = kWeightBits / 2;
inline constexpr int kGroup = 4;               // taps
inline constexpr std::size_t kPackedEach = 8;  // 32-bit words of one output, a group, a part
inline constexpr std::size_t kPackedTwo = 2 * kPackedEach;  // of outputs i and i + 1, i even
inline constexpr int kMostTaps = 4096;                      // the lower parts' sums stay below 2^31

// Sets `packed`, `offsets` and `groups`. For outputs i and i + 1 and each group of taps: the upper
// parts, then the lower ones; of an output taps 0 and 1 four times (red, green, blue, nothing),
// then taps 2 and 3, each pair as two 16-bit numbers. Outputs come in fours: those behind the last
// are nothing. A group begins so far to the left that its last tap is in the row, if it can.
void pack_taps(Taps& taps);

// By the kernel for one group, for two, or for any number.
template <auto kOne, auto kTwo, auto kAny>
void across_packed(const std::uint8_t* in, const Taps& taps, std::uint8_t* out) {
  if (taps.groups * kGroup > kMostTaps) return plain_resize_kernels().across(in, taps, out);
  if (taps.groups == 1) return kOne(in, taps, out);
  if (taps.groups == 2) return kTwo(in, taps, out);
  kAny(in, taps, out);
}

}  // namespace lockstep::data::image

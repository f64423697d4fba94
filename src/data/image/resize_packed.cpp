#include "data/image/resize_packed.h"

#include <algorithm>

#include "data/image/image.h"

namespace lockstep::data::image {
namespace {

constexpr int kAtOnce = 4;  // outputs

// Of output i, whose groups begin `shift` taps before its span.
void pack(const Taps& taps, int i, int shift, std::int32_t* packed) {
  const std::int32_t* weights = taps.weights_of(i);
  packed += static_cast<std::size_t>(i % 2) * kPackedEach;
  for (int x = 0; x < taps.spans[static_cast<std::size_t>(i)].count; ++x) {
    const int tap = x + shift;
    const int upper_half = tap % 2 * 16;
    const std::int32_t upper = (weights[x] >> kPartBits) << upper_half;
    const std::int32_t lower = (weights[x] & ((1 << kPartBits) - 1)) << upper_half;
    std::int32_t* to = packed + static_cast<std::size_t>(tap / kGroup) * 2 * kPackedTwo +
                       static_cast<std::size_t>(tap % kGroup / 2) * (kPackedEach / 2);
    for (std::size_t lane = 0; lane < kPackedEach / 2; ++lane) {
      to[lane] |= upper;
      to[kPackedTwo + lane] |= lower;
    }
  }
}

}  // namespace

void pack_taps(Taps& taps) {
  const int outputs = static_cast<int>(taps.spans.size());
  int most = 1;
  int end = 0;
  for (const Taps::Span span : taps.spans) {
    most = std::max(most, span.count);
    end = std::max(end, span.first + span.count);
  }
  taps.groups = (most + kGroup - 1) / kGroup;
  const int fours = (outputs + kAtOnce - 1) / kAtOnce;
  const std::size_t padded = static_cast<std::size_t>(fours) * kAtOnce;
  const std::size_t step = static_cast<std::size_t>(taps.groups) * 2 * kPackedTwo;
  taps.offsets.assign(padded, 0);
  taps.packed.assign(padded / 2 * step, 0);
  const int latest = std::max(0, end - taps.groups * kGroup);
  for (int i = 0; i < outputs; ++i) {
    const int first = taps.spans[static_cast<std::size_t>(i)].first;
    const int begin = std::min(first, latest);
    taps.offsets[static_cast<std::size_t>(i)] = begin * kChannels;
    pack(taps, i, first - begin, taps.packed.data() + static_cast<std::size_t>(i / 2) * step);
  }
}

}  // namespace lockstep::data::image

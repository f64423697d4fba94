#include "data/image/pixel_values_avx512.h"

#include <immintrin.h>

#include <algorithm>

namespace lockstep::data::image {
namespace {

using Channel = PixelValues::Channel;

constexpr int kStep = 16;  // pixels

#define LOCKSTEP_AVX512 __attribute__((target("avx512f")))

LOCKSTEP_AVX512 __m512 quotient16(__m512 a, const Reciprocal& b) {
  return _mm512_fmadd_ps(a, _mm512_set1_ps(b.inverse), _mm512_mul_ps(a, _mm512_set1_ps(b.rest)));
}

LOCKSTEP_AVX512 void values16(const std::uint8_t* from, bool flipped, const Channel& channel,
                              float* out) {
  const __m128i turned = _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  if (flipped) bytes = _mm_shuffle_epi8(bytes, turned);
  const __m512 unit = quotient16(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(bytes)), kWhite);
  const __m512 centred = _mm512_sub_ps(unit, _mm512_set1_ps(channel.mean));
  _mm512_storeu_ps(out, quotient16(centred, channel.std));
}

}  // namespace

LOCKSTEP_AVX512 void write_planes_avx512(const PixelValues::Block& block, const PixelView& view,
                                         const std::array<Channel, kChannels>& channels) {
  const std::uint8_t* row = block.first;
  float* out = block.out;
  for (int y = 0; y < block.height; ++y, row += view.row, out += block.row)
    for (int step = 0; step < block.width; step += kStep) {
      const int x = std::min(step, block.width - kStep);
      float* to = out + (block.flipped ? block.width - kStep - x : x);
      for (std::size_t c = 0; c < channels.size(); ++c)
        values16(row + x + static_cast<std::ptrdiff_t>(c) * view.plane, block.flipped, channels[c],
                 to + c * block.plane);
    }
}

}  // namespace lockstep::data::image

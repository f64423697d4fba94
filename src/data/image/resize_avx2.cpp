#include "data/image/resize_avx2.h"

#include <immintrin.h>

#include <array>
#include <cstring>

#include "data/image/image.h"
#include "data/image/resize_packed.h"

namespace lockstep::data::image {
namespace {

#define LOCKSTEP_AVX2 __attribute__((target("avx2")))

// Four pixels to words: red, red, green, green, blue, blue, 0, 0 of two of them in either half.
LOCKSTEP_AVX2 __m256i words_of(const std::uint8_t* pixels) {
  const __m128i spread = _mm_setr_epi8(0, 3, 1, 4, 2, 5, -1, -1, 6, 9, 7, 10, 8, 11, -1, -1);
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels));
  return _mm256_cvtepu8_epi16(_mm_shuffle_epi8(bytes, spread));
}

LOCKSTEP_AVX2 __m256i times(__m256i words, const std::int32_t* weights) {
  return _mm256_madd_epi16(words, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights)));
}

// One output, whose halves are still to be added. kGroups: 0 if only known at run time.
template <int kGroups>
LOCKSTEP_AVX2 __m256i sums_of(const std::uint8_t* pixels, const std::int32_t* packed, int some) {
  const int groups = kGroups > 0 ? kGroups : some;
  __m256i upper = _mm256_setzero_si256();
  __m256i lower = upper;
  for (int group = 0; group < groups; ++group, packed += 2 * kPackedTwo) {
    const __m256i words = words_of(pixels + group * kGroup * kChannels);
    upper = _mm256_add_epi32(upper, times(words, packed));
    lower = _mm256_add_epi32(lower, times(words, packed + kPackedTwo));
  }
  return _mm256_add_epi32(_mm256_slli_epi32(upper, kPartBits), lower);
}

// Two outputs, side by side.
LOCKSTEP_AVX2 __m256i together(__m256i a, __m256i b) {
  const __m256i sums = _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                        _mm256_permute2x128_si256(a, b, 0x31));
  return _mm256_srai_epi32(_mm256_add_epi32(sums, _mm256_set1_epi32(kHalfWeight)), kWeightBits);
}

template <int kGroups>
LOCKSTEP_AVX2 __m256i two_outputs(const std::uint8_t* in, const std::int32_t* offsets,
                                  const std::int32_t* packed, int groups) {
  return together(sums_of<kGroups>(in + offsets[0], packed, groups),
                  sums_of<kGroups>(in + offsets[1], packed + kPackedEach, groups));
}

template <int kGroups>
LOCKSTEP_AVX2 void across_groups(const std::uint8_t* in, const Taps& taps, std::uint8_t* out) {
  const __m128i dense = _mm_setr_epi8(0, 1, 2, 8, 9, 10, 4, 5, 6, 12, 13, 14, -1, -1, -1, -1);
  const int groups = kGroups > 0 ? kGroups : taps.groups;
  const std::size_t step = static_cast<std::size_t>(groups) * 2 * kPackedTwo;
  const std::int32_t* packed = taps.packed.data();
  const std::int32_t* from = taps.offsets.data();
  std::size_t left = taps.spans.size();
  for (; left > 0; from += 4, packed += 2 * step) {
    const __m256i words =
        _mm256_packs_epi32(two_outputs<kGroups>(in, from, packed, groups),
                           two_outputs<kGroups>(in, from + 2, packed + step, groups));
    const __m128i bytes = _mm_shuffle_epi8(
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)), dense);
    if (left < 4) {
      alignas(16) std::array<std::uint8_t, 16> last;
      _mm_store_si128(reinterpret_cast<__m128i*>(last.data()), bytes);
      std::memcpy(out, last.data(), left * kChannels);
      return;
    }
    // Four bytes go where the next pixels follow, or behind the row.
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), bytes);
    left -= 4;
    out += 4 * kChannels;
  }
}

LOCKSTEP_AVX2 __m256i eight(const std::uint8_t* bytes) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
}

// The sums of 32 neighbours to 32 bytes.
LOCKSTEP_AVX2 __m256i rounded32(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i ab =
      _mm256_packs_epi32(_mm256_srai_epi32(a, kWeightBits), _mm256_srai_epi32(b, kWeightBits));
  const __m256i cd =
      _mm256_packs_epi32(_mm256_srai_epi32(c, kWeightBits), _mm256_srai_epi32(d, kWeightBits));
  // Packing works in halves of 128 bits: a0 b0 c0 d0 a1 b1 c1 d1.
  return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(ab, cd),
                                     _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

LOCKSTEP_AVX2 void down(const std::uint8_t* in, std::ptrdiff_t row, const std::int32_t* weights,
                        int count, std::uint8_t* out, std::size_t bytes) {
  constexpr std::size_t kBlock = 32;
  std::size_t done = 0;
  for (; done + kBlock <= bytes; done += kBlock) {
    __m256i a = _mm256_set1_epi32(kHalfWeight);
    __m256i b = a;
    __m256i c = a;
    __m256i d = a;
    const std::uint8_t* from = in + done;
    for (int y = 0; y < count; ++y, from += row) {
      const __m256i weight = _mm256_set1_epi32(weights[y]);
      a = _mm256_add_epi32(a, _mm256_mullo_epi32(eight(from), weight));
      b = _mm256_add_epi32(b, _mm256_mullo_epi32(eight(from + 8), weight));
      c = _mm256_add_epi32(c, _mm256_mullo_epi32(eight(from + 16), weight));
      d = _mm256_add_epi32(d, _mm256_mullo_epi32(eight(from + 24), weight));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + done), rounded32(a, b, c, d));
  }
  plain_resize_kernels().down(in + done, row, weights, count, out + done, bytes - done);
}

constexpr ResizeKernels kKernels{
    pack_taps, across_packed<across_groups<1>, across_groups<2>, across_groups<0>>, down};

}  // namespace

const ResizeKernels& avx2_resize_kernels() { return kKernels; }

}  // namespace lockstep::data::image

#include "data/image/resize_avx512.h"

#include <immintrin.h>

#include "data/image/image.h"
#include "data/image/resize_packed.h"

// Four taps of two outputs in one register.
namespace lockstep::data::image {
namespace {

constexpr std::size_t kLanes = kPackedTwo;  // 32-bit words of a register

#define LOCKSTEP_AVX512 __attribute__((target("avx512f,avx512bw,avx512vl")))

// Bytes of four pixels each at `a` and `b` to words: red, red, green, green, blue, blue, 0, 0 of
// two pixels in each quarter.
LOCKSTEP_AVX512 __m512i words_of(const std::uint8_t* a, const std::uint8_t* b) {
  const __m256i spread = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 3, 1, 4, 2, 5, -1, -1, 6, 9, 7, 10, 8, 11, -1, -1));
  const __m256i bytes = _mm256_inserti128_si256(
      _mm256_castsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a))),
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(b)), 1);
  return _mm512_cvtepu8_epi16(_mm256_shuffle_epi8(bytes, spread));
}

// Outputs i and i + 1, in a half each, whose quarters are still to be added. kGroups: 0 if only
// known at run time.
template <int kGroups>
LOCKSTEP_AVX512 __m512i two_sums(const std::uint8_t* a, const std::uint8_t* b,
                                 const std::int32_t* packed, int some) {
  const int groups = kGroups > 0 ? kGroups : some;
  __m512i upper = _mm512_setzero_si512();
  __m512i lower = upper;
  for (int group = 0; group < groups; ++group, packed += 2 * kLanes) {
    const __m512i words = words_of(a + group * kGroup * kChannels, b + group * kGroup * kChannels);
    upper = _mm512_add_epi32(upper, _mm512_madd_epi16(words, _mm512_loadu_si512(packed)));
    lower = _mm512_add_epi32(lower, _mm512_madd_epi16(words, _mm512_loadu_si512(packed + kLanes)));
  }
  return _mm512_add_epi32(_mm512_slli_epi32(upper, kPartBits), lower);
}

LOCKSTEP_AVX512 __m128i rounded16(__m512i sums) {
  const __m512i whole = _mm512_add_epi32(sums, _mm512_set1_epi32(kHalfWeight));
  return _mm512_cvtusepi32_epi8(_mm512_srai_epi32(whole, kWeightBits));
}

LOCKSTEP_AVX512 __m128i four_pixels(__m512i first, __m512i second) {
  const __m128i dense = _mm_setr_epi8(0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1);
  const __m512i even = _mm512_shuffle_i32x4(first, second, 0x88);
  const __m512i odd = _mm512_shuffle_i32x4(first, second, 0xDD);
  return _mm_shuffle_epi8(rounded16(_mm512_add_epi32(even, odd)), dense);
}

template <int kGroups>
LOCKSTEP_AVX512 void across_groups(const std::uint8_t* in, const Taps& taps, std::uint8_t* out) {
  const std::size_t outputs = taps.spans.size();
  const std::size_t step =
      static_cast<std::size_t>(kGroups > 0 ? kGroups : taps.groups) * 2 * kLanes;
  const std::int32_t* packed = taps.packed.data();
  const std::int32_t* from = taps.offsets.data();
  const auto four = [&]() LOCKSTEP_AVX512 {
    const __m512i first = two_sums<kGroups>(in + from[0], in + from[1], packed, taps.groups);
    const __m512i second =
        two_sums<kGroups>(in + from[2], in + from[3], packed + step, taps.groups);
    from += 4;
    packed += 2 * step;
    return four_pixels(first, second);
  };
  // Four bytes go where the next pixels follow, or behind the row.
  std::size_t i = 0;
  for (; i + 4 <= outputs; i += 4, out += 4 * kChannels)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), four());
  if (i < outputs)
    _mm_mask_storeu_epi8(out, static_cast<__mmask16>((1U << (outputs - i) * kChannels) - 1),
                         four());
}

LOCKSTEP_AVX512 __m128i down16(const std::uint8_t* in, std::ptrdiff_t row,
                               const std::int32_t* weights, int count, __mmask16 which) {
  __m512i sums = _mm512_setzero_si512();
  for (int y = 0; y < count; ++y, in += row) {
    const __m512i values = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(which, in));
    sums = _mm512_add_epi32(sums, _mm512_mullo_epi32(values, _mm512_set1_epi32(weights[y])));
  }
  return rounded16(sums);
}

LOCKSTEP_AVX512 void down(const std::uint8_t* in, std::ptrdiff_t row, const std::int32_t* weights,
                          int count, std::uint8_t* out, std::size_t bytes) {
  std::size_t done = 0;
  for (; done + kLanes <= bytes; done += kLanes)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + done),
                     down16(in + done, row, weights, count, static_cast<__mmask16>(-1)));
  if (done == bytes) return;
  const auto rest = static_cast<__mmask16>((1U << (bytes - done)) - 1);
  _mm_mask_storeu_epi8(out + done, rest, down16(in + done, row, weights, count, rest));
}

constexpr ResizeKernels kKernels{
    pack_taps, across_packed<across_groups<1>, across_groups<2>, across_groups<0>>, down};

}  // namespace

const ResizeKernels& avx512_resize_kernels() { return kKernels; }

}  // namespace lockstep::data::image

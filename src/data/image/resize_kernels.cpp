#include "data/image/resize_kernels.h"

#include <immintrin.h>

#include <algorithm>

#include "data/image/image.h"

namespace lockstep::data::image {
namespace {

constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);
constexpr int kTop = 255;

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, kTop));
}

void across_plain(const std::uint8_t* in, const Taps& taps, std::uint8_t* out) {
  const std::int32_t* weights = taps.weights.data();
  for (const Taps::Span span : taps.spans) {
    const std::uint8_t* pixel = in + std::ptrdiff_t{span.first} * kChannels;
    std::int32_t red = kHalf;
    std::int32_t green = kHalf;
    std::int32_t blue = kHalf;
    for (int x = 0; x < span.count; ++x, pixel += kChannels) {
      red += pixel[0] * weights[x];
      green += pixel[1] * weights[x];
      blue += pixel[2] * weights[x];
    }
    *out++ = rounded(red);
    *out++ = rounded(green);
    *out++ = rounded(blue);
    weights += taps.stride;
  }
}

// Takes on the instruction set of the function it is inlined into.
[[gnu::always_inline]] inline void down_body(const std::uint8_t* in, std::ptrdiff_t row,
                                             const std::int32_t* weights, int count,
                                             std::uint8_t* out, std::size_t bytes) {
  constexpr std::size_t kBlock = 64;
  std::size_t done = 0;
  for (; done + kBlock <= bytes; done += kBlock) {
    std::int32_t sums[kBlock];
    for (std::int32_t& sum : sums) sum = kHalf;
    for (int y = 0; y < count; ++y)
      for (std::size_t i = 0; i < kBlock; ++i)
        sums[i] += in[y * row + static_cast<std::ptrdiff_t>(done + i)] * weights[y];
    for (std::size_t i = 0; i < kBlock; ++i) out[done + i] = rounded(sums[i]);
  }
  for (; done < bytes; ++done) {
    std::int32_t sum = kHalf;
    for (int y = 0; y < count; ++y)
      sum += in[y * row + static_cast<std::ptrdiff_t>(done)] * weights[y];
    out[done] = rounded(sum);
  }
}

void down_plain(const std::uint8_t* in, std::ptrdiff_t row, const std::int32_t* weights, int count,
                std::uint8_t* out, std::size_t bytes) {
  down_body(in, row, weights, count, out, bytes);
}

__attribute__((target("avx2"))) void down_avx2(const std::uint8_t* in, std::ptrdiff_t row,
                                               const std::int32_t* weights, int count,
                                               std::uint8_t* out, std::size_t bytes) {
  down_body(in, row, weights, count, out, bytes);
}

// Two pixels at a time, each in four lanes of which the last is not used.
__attribute__((target("avx2"))) void across_avx2(const std::uint8_t* in, const Taps& taps,
                                                 std::uint8_t* out) {
  const __m128i spread = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i which = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  const std::int32_t* weights = taps.weights.data();
  for (const Taps::Span span : taps.spans) {
    const std::uint8_t* pixel = in + std::ptrdiff_t{span.first} * kChannels;
    __m256i sums = _mm256_setzero_si256();
    for (int x = 0; x < span.count; x += 2, pixel += 2 * kChannels) {
      const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(pixel));
      const __m256i two = _mm256_cvtepu8_epi32(_mm_shuffle_epi8(bytes, spread));
      const __m128i pair = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(weights + x));
      const __m256i weight = _mm256_permutevar8x32_epi32(_mm256_castsi128_si256(pair), which);
      sums = _mm256_add_epi32(sums, _mm256_mullo_epi32(two, weight));
    }
    const __m128i sum = _mm_add_epi32(
        _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1)),
        _mm_set1_epi32(kHalf));
    const __m128i words = _mm_packs_epi32(_mm_srai_epi32(sum, kWeightBits), _mm_setzero_si128());
    const std::int32_t packed = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    // A fourth byte goes where the next pixel follows, or behind the row.
    __builtin_memcpy(out, &packed, sizeof packed);
    out += kChannels;
    weights += taps.stride;
  }
}

constexpr ResizeKernels kPlain{across_plain, down_plain};
constexpr ResizeKernels kAvx2{across_avx2, down_avx2};

}  // namespace

const ResizeKernels& plain_resize_kernels() { return kPlain; }

const ResizeKernels& resize_kernels() {
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0;
  return has_avx2 ? kAvx2 : kPlain;
}

}  // namespace lockstep::data::image

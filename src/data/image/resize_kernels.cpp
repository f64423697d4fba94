#include "data/image/resize_kernels.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "data/image/image.h"
#include "data/image/resize_avx512.h"

namespace lockstep::data::image {
namespace {

constexpr std::int32_t kHalf = 1 << (kWeightBits - 1);
constexpr int kLargest = 255;

std::uint8_t rounded(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> kWeightBits, 0, kLargest));
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

// From byte `done` on.
void down_rest(const std::uint8_t* in, std::ptrdiff_t row, const std::int32_t* weights, int count,
               std::uint8_t* out, std::size_t bytes, std::size_t done) {
  for (; done < bytes; ++done) {
    std::int32_t sum = kHalf;
    for (int y = 0; y < count; ++y)
      sum += in[y * row + static_cast<std::ptrdiff_t>(done)] * weights[y];
    out[done] = rounded(sum);
  }
}

void down_plain(const std::uint8_t* in, std::ptrdiff_t row, const std::int32_t* weights, int count,
                std::uint8_t* out, std::size_t bytes) {
  down_rest(in, row, weights, count, out, bytes, 0);
}

__attribute__((target("avx2"))) __m256i eight(const std::uint8_t* bytes) {
  return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(bytes)));
}

// The sums of 32 neighbours to 32 bytes.
__attribute__((target("avx2"))) __m256i rounded32(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i ab =
      _mm256_packs_epi32(_mm256_srai_epi32(a, kWeightBits), _mm256_srai_epi32(b, kWeightBits));
  const __m256i cd =
      _mm256_packs_epi32(_mm256_srai_epi32(c, kWeightBits), _mm256_srai_epi32(d, kWeightBits));
  // Packing works in halves of 128 bits: a0 b0 c0 d0 a1 b1 c1 d1.
  return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(ab, cd),
                                     _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

__attribute__((target("avx2"))) void down_avx2(const std::uint8_t* in, std::ptrdiff_t row,
                                               const std::int32_t* weights, int count,
                                               std::uint8_t* out, std::size_t bytes) {
  constexpr std::size_t kBlock = 32;
  std::size_t done = 0;
  for (; done + kBlock <= bytes; done += kBlock) {
    __m256i a = _mm256_set1_epi32(kHalf);
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
  down_rest(in, row, weights, count, out, bytes, done);
}

// One output's sums, in lanes 0 to 2 of either half: two pixels at a time, four lanes each.
__attribute__((target("avx2"))) __m256i across_sums(const std::uint8_t* pixel,
                                                    const std::int32_t* weights, int count) {
  const __m128i spread = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i which = _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1);
  __m256i sums = _mm256_setzero_si256();
  for (int x = 0; x < count; x += 2, pixel += 2 * kChannels) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(pixel));
    const __m256i two = _mm256_cvtepu8_epi32(_mm_shuffle_epi8(bytes, spread));
    const __m256i pair =
        _mm256_castsi128_si256(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(weights + x)));
    const __m256i weight = _mm256_permutevar8x32_epi32(pair, which);
    sums = _mm256_add_epi32(sums, _mm256_mullo_epi32(two, weight));
  }
  return sums;
}

// The halves' sums of two outputs, side by side.
__attribute__((target("avx2"))) __m256i together(__m256i a, __m256i b) {
  const __m256i sums = _mm256_add_epi32(_mm256_permute2x128_si256(a, b, 0x20),
                                        _mm256_permute2x128_si256(a, b, 0x31));
  return _mm256_srai_epi32(_mm256_add_epi32(sums, _mm256_set1_epi32(kHalf)), kWeightBits);
}

__attribute__((target("avx2"))) void across_avx2(const std::uint8_t* in, const Taps& taps,
                                                 std::uint8_t* out) {
  const __m128i dense = _mm_setr_epi8(0, 1, 2, 8, 9, 10, 4, 5, 6, 12, 13, 14, -1, -1, -1, -1);
  const std::size_t outputs = taps.spans.size();
  const auto sums = [&](std::size_t i) __attribute__((target("avx2"))) {
    const Taps::Span span = taps.spans[std::min(i, outputs - 1)];
    return across_sums(in + std::ptrdiff_t{span.first} * kChannels,
                       taps.weights_of(static_cast<int>(std::min(i, outputs - 1))), span.count);
  };
  std::size_t i = 0;
  for (; i + 4 <= outputs; i += 4, out += 4 * kChannels) {
    const __m256i words =
        _mm256_packs_epi32(together(sums(i), sums(i + 1)), together(sums(i + 2), sums(i + 3)));
    const __m128i bytes =
        _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    // Four bytes go where the next pixels follow, or behind the row.
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_shuffle_epi8(bytes, dense));
  }
  for (; i < outputs; ++i, out += kChannels) {
    const __m128i sum = _mm256_castsi256_si128(together(sums(i), sums(i)));
    const __m128i words = _mm_packs_epi32(sum, sum);
    const std::int32_t packed = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    std::memcpy(out, &packed, sizeof packed);
  }
}

void nothing(Taps&) {}

constexpr ResizeKernels kPlain{nothing, across_plain, down_plain};
constexpr ResizeKernels kAvx2{nothing, across_avx2, down_avx2};

bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0;
}

}  // namespace

const ResizeKernels& plain_resize_kernels() { return kPlain; }

std::vector<const ResizeKernels*> supported_resize_kernels() {
  std::vector<const ResizeKernels*> all = {&kPlain};
  if (__builtin_cpu_supports("avx2") != 0) all.push_back(&kAvx2);
  if (has_avx512()) all.push_back(&avx512_resize_kernels());
  return all;
}

const ResizeKernels& resize_kernels() {
  static const ResizeKernels& fastest = *supported_resize_kernels().back();
  return fastest;
}

}  // namespace lockstep::data::image

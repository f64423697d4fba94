#include "comm/kernels.h"

#include <emmintrin.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "comm/half.h"

namespace lockstep::comm {
namespace {

// One element type each: how two are added, how one is scaled, and the bits of the exponent, which
// are all set in what is not finite.
template <class T>
struct Native {
  using Type = T;
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  static constexpr Bits kExponent = sizeof(T) == 4 ? 0x7f800000 : 0x7ff0000000000000;
  [[gnu::always_inline]] static T add(T a, T b) { return a + b; }
  [[gnu::always_inline]] static T scaled(T a, float scale) { return a * static_cast<T>(scale); }
};
struct BFloat16 {
  using Type = std::uint16_t;
  using Bits = Type;
  static constexpr Bits kExponent = 0x7f80;
  [[gnu::always_inline]] static Type add(Type a, Type b) {
    return to_bf16(from_bf16(a) + from_bf16(b));
  }
  [[gnu::always_inline]] static Type scaled(Type a, float scale) {
    return to_bf16(from_bf16(a) * scale);
  }
};
struct Float16 {
  using Type = std::uint16_t;
  using Bits = Type;
  static constexpr Bits kExponent = 0x7c00;
  [[gnu::always_inline]] static Type add(Type a, Type b) {
    return to_fp16(from_fp16(a) + from_fp16(b));
  }
  [[gnu::always_inline]] static Type scaled(Type a, float scale) {
    return to_fp16(from_fp16(a) * scale);
  }
};

// The bodies take on the instruction set of the function they are inlined into. Their loops have no
// dependence from one turn to the next (out is an input or overlaps none); clang finds that out at
// run time.
#ifdef __clang__
#define LOCKSTEP_INDEPENDENT
#define LOCKSTEP_AVX512 "avx512f,avx512bw,avx512vl"
#else
#define LOCKSTEP_INDEPENDENT _Pragma("GCC ivdep")
#define LOCKSTEP_AVX512 "avx512f,avx512bw,avx512vl,prefer-vector-width=512"
#endif

template <class E>
[[gnu::always_inline]] inline void one_body(void* out_, const void* a_, std::size_t count,
                                            float scale) {
  auto* out = static_cast<typename E::Type*>(out_);
  const auto* a = static_cast<const typename E::Type*>(a_);
  LOCKSTEP_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) out[i] = E::scaled(a[i], scale);
}

template <class E, bool kScale>
[[gnu::always_inline]] inline void two_body(void* out_, const void* a_, const void* b_,
                                            std::size_t count, float scale) {
  auto* out = static_cast<typename E::Type*>(out_);
  const auto* a = static_cast<const typename E::Type*>(a_);
  const auto* b = static_cast<const typename E::Type*>(b_);
  LOCKSTEP_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const auto sum = E::add(a[i], b[i]);
    out[i] = kScale ? E::scaled(sum, scale) : sum;
  }
}

template <class E, bool kScale>
[[gnu::always_inline]] inline void three_body(void* out_, const void* a_, const void* b_,
                                              const void* c_, std::size_t count, float scale) {
  auto* out = static_cast<typename E::Type*>(out_);
  const auto* a = static_cast<const typename E::Type*>(a_);
  const auto* b = static_cast<const typename E::Type*>(b_);
  const auto* c = static_cast<const typename E::Type*>(c_);
  LOCKSTEP_INDEPENDENT
  for (std::size_t i = 0; i < count; ++i) {
    const auto sum = E::add(E::add(a[i], b[i]), c[i]);
    out[i] = kScale ? E::scaled(sum, scale) : sum;
  }
}

// The exponent's lowest bit added to it carries into the sign's place if all of it is set.
template <class E>
[[gnu::always_inline]] inline bool finite_body(const void* a_, std::size_t count) {
  using Bits = typename E::Bits;
  constexpr Bits kLowest = E::kExponent & (~E::kExponent + 1);
  const auto* a = static_cast<const typename E::Type*>(a_);
  Bits carried = 0;
  for (std::size_t i = 0; i < count; ++i)
    carried |= static_cast<Bits>((std::bit_cast<Bits>(a[i]) & E::kExponent) + kLowest);
  return (carried & static_cast<Bits>(E::kExponent + kLowest)) == 0;
}

#define LOCKSTEP_KERNELS(name, ...)                                                         \
  template <class E>                                                                        \
  struct name {                                                                             \
    __VA_ARGS__ static void one(void* out, const void* a, std::size_t count, float scale) { \
      if (scale != 1.0F)                                                                    \
        one_body<E>(out, a, count, scale);                                                  \
      else if (out != a && count > 0)                                                       \
        std::memcpy(out, a, count * sizeof(typename E::Type));                              \
    }                                                                                       \
    __VA_ARGS__ static void two(void* out, const void* a, const void* b, std::size_t count, \
                                float scale) {                                              \
      if (scale == 1.0F)                                                                    \
        two_body<E, false>(out, a, b, count, scale);                                        \
      else                                                                                  \
        two_body<E, true>(out, a, b, count, scale);                                         \
    }                                                                                       \
    __VA_ARGS__ static void three(void* out, const void* a, const void* b, const void* c,   \
                                  std::size_t count, float scale) {                         \
      if (scale == 1.0F)                                                                    \
        three_body<E, false>(out, a, b, c, count, scale);                                   \
      else                                                                                  \
        three_body<E, true>(out, a, b, c, count, scale);                                    \
    }                                                                                       \
    __VA_ARGS__ static bool finite(const void* a, std::size_t count) {                      \
      return finite_body<E>(a, count);                                                      \
    }                                                                                       \
    static constexpr Kernels kTable{one, two, three, finite};                               \
  }

LOCKSTEP_KERNELS(Baseline, );
LOCKSTEP_KERNELS(Avx2, __attribute__((target("avx2"))));
LOCKSTEP_KERNELS(Avx512, __attribute__((target(LOCKSTEP_AVX512))));
#undef LOCKSTEP_KERNELS
#undef LOCKSTEP_AVX512
#undef LOCKSTEP_INDEPENDENT

template <class E>
const Kernels& pick(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return Avx512<E>::kTable;
    case Isa::kAvx2:
      return Avx2<E>::kTable;
    case Isa::kBaseline:
      break;
  }
  return Baseline<E>::kTable;
}

}  // namespace

std::vector<Isa> supported_isas() {
  std::vector<Isa> isas{Isa::kBaseline};
  if (__builtin_cpu_supports("avx2")) isas.push_back(Isa::kAvx2);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    isas.push_back(Isa::kAvx512);
  return isas;
}

const Kernels& kernels_for(DType dtype, Isa isa) {
  switch (dtype) {
    case DType::kFloat64:
      return pick<Native<double>>(isa);
    case DType::kBFloat16:
      return pick<BFloat16>(isa);
    case DType::kFloat16:
      return pick<Float16>(isa);
    case DType::kFloat32:
      break;
  }
  return pick<Native<float>>(isa);
}

const Kernels& kernels_for(DType dtype) {
  static const Isa best = supported_isas().back();
  return kernels_for(dtype, best);
}

void stream(std::byte* out, const std::byte* in, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  const std::size_t lines = bytes / kLine;
  for (std::size_t i = 0; i < lines * 4; ++i)
    _mm_stream_si128(reinterpret_cast<__m128i*>(out) + i,
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(in) + i));
  std::memcpy(out + lines * kLine, in + lines * kLine, bytes % kLine);
}

void stream_fence() { _mm_sfence(); }

}  // namespace lockstep::comm

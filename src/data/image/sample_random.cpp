#include "data/image/sample_random.h"

#include <algorithm>
#include <bit>
#include <random>

#include "base/hash.h"

namespace lockstep::data::image {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::size_t kShift = 397;   // MT19937's m
constexpr std::uint32_t kLanes = 32;  // samples seeded side by side
constexpr std::size_t kReady = SampleRandom::kReady;
using Lanes = std::array<std::uint32_t, kLanes>;

// The words that the first kReady outputs depend on: 0 to kReady, and kReady from kShift on.
struct Words {
  std::array<Lanes, kReady + 1> first;
  std::array<Lanes, kReady> shifted;
};

// One word of the state after the other, for all lanes.
[[gnu::always_inline]] inline void next_word(Lanes& state, std::uint32_t index) {
  for (std::uint32_t& s : state) s = 1812433253U * (s ^ s >> 30) + index;
}

[[gnu::always_inline]] inline void seed_words(Lanes state, Words& words) {
  words.first[0] = state;
  for (std::uint32_t i = 1; i < kShift + kReady; ++i) {
    next_word(state, i);
    if (i <= kReady) words.first[i] = state;
    if (i >= kShift) words.shifted[i - kShift] = state;
  }
}

std::uint32_t tempered(std::uint32_t y) {
  y ^= y >> 11;
  y ^= y << 7 & 0x9D2C5680U;
  y ^= y << 15 & 0xEFC60000U;
  return y ^ y >> 18;
}

std::uint32_t output(const Words& words, std::size_t i, std::size_t lane) {
  const std::uint32_t y =
      (words.first[i][lane] & 0x80000000U) | (words.first[i + 1][lane] & 0x7FFFFFFFU);
  return tempered(words.shifted[i][lane] ^ y >> 1 ^ ((y & 1U) != 0U ? 0x9908B0DFU : 0U));
}

using SeedWords = void (*)(const Lanes&, Words&);
void seed_baseline(const Lanes& keys, Words& words) { seed_words(keys, words); }
__attribute__((target("avx2"))) void seed_avx2(const Lanes& keys, Words& words) {
  seed_words(keys, words);
}
SeedWords pick() { return __builtin_cpu_supports("avx2") != 0 ? seed_avx2 : seed_baseline; }

}  // namespace

struct SampleRandom::Engine {
  std::mt19937 engine;
};

void SampleRandom::FreeEngine::operator()(Engine* engine) const { delete engine; }

std::uint32_t sample_key(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample) {
  const std::array<std::uint64_t, 3> words = {seed, epoch, sample};
  return static_cast<std::uint32_t>(xxh3(std::as_bytes(std::span(words))));
}

SampleRandom::SampleRandom(std::uint32_t key) { make({&key, 1}, {this, 1}); }

void SampleRandom::make(std::span<const std::uint32_t> keys, std::span<SampleRandom> out) {
  static const SeedWords kSeed = pick();
  Words words;
  for (std::size_t begin = 0; begin < keys.size(); begin += kLanes) {
    const std::size_t count = std::min<std::size_t>(kLanes, keys.size() - begin);
    Lanes lanes{};
    std::copy_n(keys.begin() + static_cast<std::ptrdiff_t>(begin), count, lanes.begin());
    kSeed(lanes, words);
    for (std::size_t lane = 0; lane < count; ++lane) {
      SampleRandom& random = out[begin + lane];
      random.key_ = keys[begin + lane];
      random.next_ = 0;
      random.engine_.reset();
      for (std::size_t i = 0; i < kReady; ++i) random.ready_[i] = output(words, i, lane);
    }
  }
}

std::uint32_t SampleRandom::bits() {
  if (next_ < kReady) return ready_[next_++];
  if (engine_ == nullptr) {
    engine_.reset(new Engine{std::mt19937(key_)});
    engine_->engine.discard(kReady);
  }
  return static_cast<std::uint32_t>(engine_->engine());
}

}  // namespace lockstep::data::image

// The random numbers of one sample in one epoch: the stream of torch.Generator().manual_seed(key),
// drawn as torchvision's transforms draw, so that `torch.manual_seed(key)` before a transform in
// Python gives the same picture.
//
// key = the low 32 bits of XXH3-64 over 24 bytes: seed, epoch, sample id, each as 64 bits
// little-endian. A pure function: no thread, worker or batch has a part in it.
//
// Source of the algorithm: Matsumoto and Nishimura, MT19937 (1998); PyTorch's distributions over
// it (aten/src/ATen/core/TransformationHelper.h). Threads: one object from one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace lockstep::data::image {

std::uint32_t sample_key(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample);

// std::mt19937 gives the same bits; this one is seeded for many samples at once.
class SampleRandom {
 public:
  explicit SampleRandom(std::uint32_t key);
  // out[i] becomes SampleRandom(keys[i]), several times faster than one by one.
  static void make(std::span<const std::uint32_t> keys, std::span<SampleRandom> out);
  SampleRandom() = default;  // not usable before make()

  std::uint32_t bits();
  // torch.randint(0, limit, (1,)); limit from 1 to 2^32 - 1.
  std::uint32_t below(std::uint32_t limit) { return bits() % limit; }
  // torch.rand(1): a multiple of 2^-24 in [0, 1).
  float uniform() { return static_cast<float>(bits() & 0xFFFFFF) * 0x1p-24F; }
  // torch.empty(1).uniform_(low, high).
  float uniform(float low, float high) { return uniform() * (high - low) + low; }

  // As many draws are ready at once; more cost a seeding of the whole state.
  static constexpr std::size_t kReady = 16;

 private:
  struct Engine;
  struct FreeEngine {
    void operator()(Engine* engine) const;
  };

  std::uint32_t key_ = 0;
  std::size_t next_ = 0;
  std::array<std::uint32_t, kReady> ready_{};
  std::unique_ptr<Engine, FreeEngine> engine_;  // made when ready_ is used up
};

}  // namespace lockstep::data::image

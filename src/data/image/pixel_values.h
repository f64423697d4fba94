// torchvision's ToTensor and Normalize: bytes to float32, channel after channel, each value with
// PyTorch's bits: float(v) / 255, then minus mean, then divided by std, each rounded.
//
// Threads: const functions from any.
#pragma once

#include <array>
#include <cstdint>

#include "data/image/image.h"

namespace lockstep::data::image {

// 1 / b in two parts, whose sum has 48 bits.
struct Reciprocal {
  constexpr explicit Reciprocal(float b)
      : inverse(1.0F / b),
        rest(static_cast<float>(1.0 / static_cast<double>(b) - static_cast<double>(inverse))) {}
  float inverse, rest;
};
inline constexpr Reciprocal kWhite{255.0F};

class PixelValues {
 public:
  struct Channel {
    float mean = 0;
    Reciprocal std{1};
  };
  enum class Vectors { kNone, kAvx2, kAvx512 };

  PixelValues() : PixelValues({0, 0, 0}, {1, 1, 1}) {}  // ToTensor alone
  PixelValues(const std::array<float, kChannels>& mean, const std::array<float, kChannels>& std);

  float at(int channel, std::uint8_t v) const { return table_[index(channel)][v]; }
  // A block of `view`'s pixels from `first` on, mirrored if `flipped`, to
  // out[channel * plane + y * row + x].
  struct Block {
    const std::uint8_t* first = nullptr;
    int width = 0, height = 0;
    bool flipped = false;
    float* out = nullptr;
    std::size_t row = 0, plane = 0;
  };
  // `widest`: that it may use where the CPU has them; no bit depends on it.
  void write(const Block& block, const PixelView& view, Vectors widest = Vectors::kAvx512) const;

 private:
  static std::size_t index(int channel) { return static_cast<std::size_t>(channel); }
  using Table = std::array<float, 256>;
  std::array<Table, kChannels> table_{};
  std::array<Channel, kChannels> channels_{};
  Vectors vectors_ = Vectors::kNone;  // else multiplications were found to give the table's bits
};

}  // namespace lockstep::data::image

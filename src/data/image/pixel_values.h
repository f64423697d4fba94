// torchvision's ToTensor and Normalize: bytes to float32, channel after channel, each value with
// PyTorch's bits: float(v) / 255, then minus mean, then divided by std, each rounded.
//
// Threads: const functions from any.
#pragma once

#include <array>
#include <cstdint>

#include "data/image/image.h"

namespace lockstep::data::image {

class PixelValues {
 public:
  PixelValues() : PixelValues({0, 0, 0}, {1, 1, 1}) {}  // ToTensor alone
  PixelValues(const std::array<float, kChannels>& mean, const std::array<float, kChannels>& std);

  float at(int channel, std::uint8_t v) const { return table_[index(channel)][v]; }
  // `count` pixels from `first` on (of a row of `view`'s layout) to out[channel * plane + i], in
  // reverse if `flipped`.
  void row(const std::uint8_t* first, const PixelView& view, int count, bool flipped, float* out,
           std::size_t plane) const;

 private:
  static std::size_t index(int channel) { return static_cast<std::size_t>(channel); }
  using Table = std::array<float, 256>;
  std::array<Table, kChannels> table_{};
  std::array<float, kChannels> mean_, std_, inverse_std_{};
  bool computed_ = false;  // by multiplications, which were found to give the table's bits
};

}  // namespace lockstep::data::image

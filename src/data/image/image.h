// A picture in memory: 8 bits, three channels, rows from the top, red green blue for each pixel, as
// Pillow's mode "RGB" and numpy's [height, width, 3].
//
// Ownership: an Image owns its pixels, a PixelView borrows them. Threads: values, no shared state.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep::data::image {

inline constexpr int kChannels = 3;

// Where the byte of (x, y, channel) lies: pixels[y * row + x * pixel + channel * plane].
struct PixelView {
  const std::uint8_t* pixels = nullptr;
  int width = 0, height = 0;
  std::ptrdiff_t row = 0, pixel = kChannels, plane = 1;  // bytes

  const std::uint8_t* at(int x, int y) const { return pixels + y * row + x * pixel; }
  bool interleaved() const { return pixel == kChannels && plane == 1; }
};

// CIFAR's files and PyTorch's tensors: red, green and blue planes, one after the other.
inline PixelView planar_view(const std::uint8_t* pixels, int width, int height) {
  return {pixels, width, height, width, 1, std::ptrdiff_t{width} * height};
}

// A part of a picture, in pixels.
struct Region {
  int left = 0, top = 0, width = 0, height = 0;
  friend bool operator==(const Region&, const Region&) = default;
};

class Image {
 public:
  Image() = default;
  Image(int width, int height) { resize(width, height); }

  int width() const { return width_; }
  int height() const { return height_; }
  std::size_t row_bytes() const { return static_cast<std::size_t>(width_) * kChannels; }
  std::size_t bytes() const { return row_bytes() * static_cast<std::size_t>(height_); }
  std::uint8_t* row(int y) { return pixels_.data() + static_cast<std::size_t>(y) * row_bytes(); }
  const std::uint8_t* row(int y) const {
    return pixels_.data() + static_cast<std::size_t>(y) * row_bytes();
  }
  std::uint8_t* data() { return pixels_.data(); }
  const std::uint8_t* data() const { return pixels_.data(); }
  PixelView view() const {
    return {pixels_.data(), width_, height_, static_cast<std::ptrdiff_t>(row_bytes())};
  }

  // `region` lies within the picture.
  PixelView part(const Region& region) const {
    return {view().at(region.left, region.top), region.width, region.height,
            static_cast<std::ptrdiff_t>(row_bytes())};
  }

  bool owns(const std::uint8_t* pixel) const {
    return std::less_equal<>()(data(), pixel) && std::less<>()(pixel, data() + bytes());
  }

  // The content is undefined afterwards; memory is kept, so that one Image serves many pictures.
  void resize(int width, int height) {
    width_ = width;
    height_ = height;
    if (pixels_.size() < bytes() + kSlack) pixels_.resize(bytes() + kSlack);
  }

  // Bytes behind the last pixel that may be read (not used), for loads wider than a pixel.
  static constexpr std::size_t kSlack = 32;

 private:
  int width_ = 0, height_ = 0;
  std::vector<std::uint8_t> pixels_;
};

}  // namespace lockstep::data::image

// The picture on its way through a list of transforms. Crops, pads and flips only move a window
// over the source; pixels are touched where an operation needs them.
//
// Ownership: borrows the source and the buffers. Threads: one at a time.
#pragma once

#include <array>
#include <functional>

#include "data/image/image.h"
#include "data/image/pixel_values.h"
#include "lockstep/transforms.h"

namespace lockstep::data::image {

using transforms::Colour;
using transforms::Padding;

// Kept from picture to picture, so that memory is asked for once.
struct CanvasBuffers {
  Image decoded;  // where a source may live
  Image first, second, between;
};

class Canvas {
 public:
  Canvas(const PixelView& source, CanvasBuffers& buffers);

  int width() const { return window_.width; }
  int height() const { return window_.height; }

  // `part` lies within the picture, or reaches beyond it into black.
  void crop(const Region& part);
  // Grows the picture by so many pixels on each side.
  struct Margins {
    int left = 0, top = 0, right = 0, bottom = 0;
  };
  void pad(const Margins& margins, Padding mode, const Colour& fill);
  void flip();  // left to right
  void resize(int width, int height);

  // The pixels as they are now: interleaved, with Image::kSlack readable bytes behind them. Valid
  // until the next change.
  PixelView pixels();
  // `change(in, out)` makes a new picture; `out` has in's size unless it resizes it.
  void replace(const std::function<void(const PixelView& in, Image& out)>& change);

  // [channel, height, width]
  void write(const PixelValues& values, float* out) const;

 private:
  bool covers_source() const;
  Region in_source(const Region& part) const;
  void settle();  // the window becomes a picture of its own
  Image& free_buffer() {
    return source_owner_ == &buffers_.first ? buffers_.second : buffers_.first;
  }
  void adopt(Image& image);
  // Of what is written: rows of nothing, rows with pixels, columns of nothing beside these.
  struct Ends {
    int above = 0, rows = 0, left = 0, right = 0;
  };
  void write_blank(const PixelValues& values, const Ends& ends, float* out) const;
  std::uint8_t pixel(int x, int y, int channel) const;

  CanvasBuffers& buffers_;
  const Image* source_owner_ = nullptr;  // null: the caller's
  PixelView source_;
  Region window_;  // of the source; outside of it is fill_
  bool flipped_ = false;
  Colour fill_{};
};

}  // namespace lockstep::data::image

// Pillow 12.0.0's Image.resize((width, height), Resampling.BILINEAR) of 8-bit pictures, byte for
// byte: a triangle filter as wide as the reduction (antialiasing), weights of 22 fraction bits, a
// pass across, rounded to bytes, then a pass down (src/libImaging/Resample.c there). Pillow 13
// rounds some portraits differently, by one level.
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "data/image/image.h"

namespace lockstep::data::image {

// `in`: interleaved, with Image::kSlack readable bytes behind its last pixel, and not part of `out`
// or `between`, which are overwritten. Sizes are at least 1.
void resize_bilinear(const PixelView& in, int width, int height, Image& between, Image& out);

struct Size {
  int height = 0, width = 0;
  friend bool operator==(const Size&, const Size&) = default;
};
std::string text(Size size);       // for messages: "244 x 244"
std::size_t values_of(Size size);  // of a picture's channels together

// torchvision's Resize(side, max_size=max_side): the shorter side becomes `side`, the longer one
// follows, both are reduced where the longer one exceeds `max_side` (0: no limit).
Size resized_to_side(Size in, int side, int max_side);

}  // namespace lockstep::data::image

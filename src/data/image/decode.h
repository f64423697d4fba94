// JPEG (libjpeg-turbo) and PNG (libspng) files as pictures, with the bytes of Pillow 12.0.0's
// Image.open(path).convert("RGB"), which is what torchvision's ImageFolder reads:
//   - EXIF orientation is not applied, colour profiles and gamma are not either;
//   - grey becomes three equal channels; alpha is dropped, not blended; palettes are looked up;
//   - 16 bits: of colours the high byte, of grey the value clipped at 255;
//   - CMYK and YCCK JPEG are taken as Adobe writes them, inverted;
//   - damage inside a JPEG's data is shown, not refused; a cut file is refused, even by two bytes.
//
// Errors: kBadData that names the file, what is wrong with it and what to do; the picture's content
// is then undefined. Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "data/image/image.h"
#include "lockstep/status.h"

namespace lockstep::data::image {

using Bytes = std::span<const std::uint8_t>;

struct DecodeLimits {
  // Width * height; the default is where Pillow raises DecompressionBombError. Memory needed: three
  // bytes a pixel, up to nine for a progressive JPEG.
  std::uint64_t max_pixels = 178'956'970;
  int max_scans = 500;  // of a progressive JPEG; each costs a pass over the picture
};

enum class Format { kJpeg, kPng };
// By content, not by name.
Result<Format> format_of(Bytes file, std::string_view name);

// `name` is for messages, mostly a path. `out` is resized.
Status decode(Bytes file, std::string_view name, Image& out, const DecodeLimits& limits = {});

// The part that `choose` names, called once, with the picture's size; kUsage for a region that does
// not lie within it. The view is of `out`, which may hold more around it, and is good until that
// changes. Equal to cutting decode()'s result. Of a JPEG only what is needed is decoded:
// rows above are not transformed, columns aside neither, rows below are not even read. A JPEG whose
// file does not end with the end marker is decoded whole, so that a cut file is an error for every
// region.
using ChooseRegion = std::function<Region(int width, int height)>;
Status check_region(const Region& region, int width, int height, std::string_view name);
Result<PixelView> decode_region(Bytes file, std::string_view name, const ChooseRegion& choose,
                                Image& out, const DecodeLimits& limits = {});

}  // namespace lockstep::data::image

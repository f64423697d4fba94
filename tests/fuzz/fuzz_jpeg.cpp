// JPEG, whole and in part: no crash, bounded work; a part of an undamaged picture is its cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "data/image/jpeg.h"

namespace {

namespace image = lockstep::data::image;

// A region that the file's own bytes choose, so that an input always gives the same.
image::Region some_region(image::Bytes file, int width, int height) {
  const auto below = [&](std::size_t at, int n) {
    return file.empty() ? 0 : file[file.size() - 1 - at % file.size()] * n / 256;
  };
  const int left = below(3, width);
  const int top = below(4, height);
  return {left, top, 1 + below(5, width - left), 1 + below(6, height - top)};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  const image::Bytes file(bytes, size);
  const image::DecodeLimits limits{.max_pixels = 1 << 16, .max_scans = 20};
  image::Image whole;
  if (!image::decode_jpeg(file, "fuzz", nullptr, whole, limits).ok()) return 0;
  image::Image part;
  const image::Region region = some_region(file, whole.width(), whole.height());
  const auto choose = [&](int, int) { return region; };
  const auto status = image::decode_jpeg(file, "fuzz", choose, part, limits);
  if (status.ok() && (status->width != region.width || status->height != region.height))
    std::abort();
  return 0;
}

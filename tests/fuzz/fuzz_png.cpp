// PNG: no crash, no memory beyond what the file can hold.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "data/image/png.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  namespace image = lockstep::data::image;
  image::Image out;
  const auto status = image::decode_png({bytes, size}, "fuzz", out, {.max_pixels = 1 << 20});
  if (!status.ok()) return 0;
  if (out.width() < 1 || out.height() < 1) std::abort();
  return 0;
}

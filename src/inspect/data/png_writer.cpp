#include "inspect/data/png_writer.h"

#include <spng.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace lockstep::inspect {
namespace {

struct FreeContext {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
struct FreeBuffer {
  void operator()(void* buffer) const { std::free(buffer); }  // NOLINT: libspng's, from malloc
};

Status check(int code) {
  if (code == 0) return {};
  return Error{ErrorKind::kInternal, std::string("a picture as PNG: ") + spng_strerror(code)};
}

}  // namespace

Result<std::vector<std::uint8_t>> encode_png(const data::image::Image& image) {
  const std::unique_ptr<spng_ctx, FreeContext> context(spng_ctx_new(SPNG_CTX_ENCODER));
  if (context == nullptr) return Error{ErrorKind::kInternal, "no memory for a picture as PNG"};
  LOCKSTEP_TRY(check(spng_set_option(context.get(), SPNG_ENCODE_TO_BUFFER, 1)));
  spng_ihdr header{};
  header.width = static_cast<std::uint32_t>(image.width());
  header.height = static_cast<std::uint32_t>(image.height());
  header.bit_depth = 8;
  header.color_type = SPNG_COLOR_TYPE_TRUECOLOR;
  LOCKSTEP_TRY(check(spng_set_ihdr(context.get(), &header)));
  LOCKSTEP_TRY(check(spng_encode_image(context.get(), image.data(), image.bytes(), SPNG_FMT_PNG,
                                       SPNG_ENCODE_FINALIZE)));
  int code = 0;
  std::size_t bytes = 0;
  const std::unique_ptr<void, FreeBuffer> buffer(spng_get_png_buffer(context.get(), &bytes, &code));
  LOCKSTEP_TRY(check(code));
  const auto* const begin = static_cast<const std::uint8_t*>(buffer.get());
  return std::vector<std::uint8_t>(begin, begin + bytes);
}

}  // namespace lockstep::inspect

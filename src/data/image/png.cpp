#include "data/image/png.h"

#include <spng.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "data/gzip.h"

namespace lockstep::data::image {
namespace {

struct FreeContext {
  void operator()(spng_ctx* context) const { spng_ctx_free(context); }
};
using Context = std::unique_ptr<spng_ctx, FreeContext>;

Error broken_png(std::string_view name, const std::string& what) {
  return Error{ErrorKind::kBadData,
               std::string(name) + ": not a usable PNG: " + what + "; replace or remove the file"};
}

Status check(int code, std::string_view name) {
  if (code != 0) return broken_png(name, spng_strerror(code));
  return {};
}

// One row's samples, as stored, to three channels. 16 bits are big-endian.
struct Row {
  const std::uint8_t* in;
  std::uint8_t* out;
  int width;
};
using Palette = std::array<std::array<std::uint8_t, kChannels>, 256>;

// Values of `depth` bits, packed from the left, looked up.
void looked_up(const Row& row, int depth, const Palette& table) {
  const int mask = (1 << depth) - 1;
  for (int x = 0; x < row.width; ++x) {
    const int bit = x * depth;
    const int value = row.in[bit / 8] >> (8 - depth - bit % 8) & mask;
    for (int c = 0; c < kChannels; ++c)
      row.out[x * kChannels + c] =
          table[static_cast<std::size_t>(value)][static_cast<std::size_t>(c)];
  }
}

// The first byte of each sample: all of it, or the high byte of two. `colours`: 1 or 3 of
// `samples`; alpha, the last, is left out.
void high_bytes(const Row& row, int samples, int colours, int sample_bytes) {
  for (int x = 0; x < row.width; ++x) {
    const std::uint8_t* pixel = row.in + x * samples * sample_bytes;
    for (int c = 0; c < kChannels; ++c)
      row.out[x * kChannels + c] = pixel[colours == 1 ? 0 : c * sample_bytes];
  }
}

// Pillow reads grey of 16 bits as numbers, and clips those above 255.
void clipped(const Row& row) {
  for (int x = 0; x < row.width; ++x) {
    const std::uint8_t value = row.in[2 * x] == 0 ? row.in[2 * x + 1] : std::uint8_t{255};
    for (int c = 0; c < kChannels; ++c) row.out[x * kChannels + c] = value;
  }
}

Palette grey_table(int depth) {
  Palette table{};
  const int top = (1 << depth) - 1;
  for (int v = 0; v <= top; ++v)
    table[static_cast<std::size_t>(v)].fill(static_cast<std::uint8_t>(v * 255 / top));
  return table;
}

// An index that has no entry is black, as in Pillow.
Result<Palette> palette_table(spng_ctx* context, std::string_view name) {
  spng_plte palette{};
  LOCKSTEP_TRY(check(spng_get_plte(context, &palette), name));
  Palette table{};
  for (std::size_t i = 0; i < palette.n_entries; ++i)
    table[i] = {palette.entries[i].red, palette.entries[i].green, palette.entries[i].blue};
  return table;
}

void convert(const Row& row, const spng_ihdr& header, const Palette& table) {
  const int bytes = header.bit_depth == 16 ? 2 : 1;
  switch (header.color_type) {
    case SPNG_COLOR_TYPE_TRUECOLOR:
      return high_bytes(row, 3, 3, bytes);
    case SPNG_COLOR_TYPE_TRUECOLOR_ALPHA:
      return high_bytes(row, 4, 3, bytes);
    case SPNG_COLOR_TYPE_GRAYSCALE_ALPHA:
      return high_bytes(row, 2, 1, bytes);
    default:
      return header.bit_depth == 16 ? clipped(row) : looked_up(row, header.bit_depth, table);
  }
}

Status check_header(const spng_ihdr& header, std::size_t raw_bytes, Bytes file,
                    std::string_view name, const DecodeLimits& limits) {
  const std::string size =
      std::to_string(header.width) + " x " + std::to_string(header.height) + " pixels";
  if (std::uint64_t{header.width} * header.height > limits.max_pixels)
    return broken_png(name,
                      size + ", the limit is " + std::to_string(limits.max_pixels) + " in all");
  if (raw_bytes / kMaxInflation > file.size())
    return broken_png(name,
                      size + " cannot be in a file of " + std::to_string(file.size()) + " bytes");
  return {};
}

Result<Context> open(Bytes file, std::string_view name) {
  constexpr std::uint32_t kMaxSide = 0x7FFFFFFF;  // the format's own
  constexpr std::size_t kMaxChunk = std::size_t{1} << 26;
  constexpr std::size_t kMaxChunks = std::size_t{1} << 28;  // all of them together
  Context context(spng_ctx_new(0));
  if (context == nullptr) return broken_png(name, "no memory to open it");
  LOCKSTEP_TRY(check(spng_set_image_limits(context.get(), kMaxSide, kMaxSide), name));
  LOCKSTEP_TRY(check(spng_set_chunk_limits(context.get(), kMaxChunk, kMaxChunks), name));
  LOCKSTEP_TRY(check(spng_set_png_buffer(context.get(), file.data(), file.size()), name));
  return context;
}

}  // namespace

Status decode_png(Bytes file, std::string_view name, Image& out, const DecodeLimits& limits) {
  LOCKSTEP_ASSIGN(const Context context, open(file, name));
  spng_ihdr header{};
  LOCKSTEP_TRY(check(spng_get_ihdr(context.get(), &header), name));
  std::size_t raw_bytes = 0;
  LOCKSTEP_TRY(check(spng_decoded_image_size(context.get(), SPNG_FMT_RAW, &raw_bytes), name));
  LOCKSTEP_TRY(check_header(header, raw_bytes, file, name, limits));
  Palette table{};
  if (header.color_type == SPNG_COLOR_TYPE_INDEXED) {
    LOCKSTEP_ASSIGN(table, palette_table(context.get(), name));
  } else if (header.bit_depth <= 8) {
    table = grey_table(header.bit_depth);
  }
  std::vector<std::uint8_t> raw(raw_bytes);
  LOCKSTEP_TRY(
      check(spng_decode_image(context.get(), raw.data(), raw_bytes, SPNG_FMT_RAW, 0), name));
  out.resize(static_cast<int>(header.width), static_cast<int>(header.height));
  const std::size_t raw_row = raw_bytes / header.height;
  for (int y = 0; y < out.height(); ++y)
    convert({raw.data() + static_cast<std::size_t>(y) * raw_row, out.row(y), out.width()}, header,
            table);
  return {};
}

}  // namespace lockstep::data::image

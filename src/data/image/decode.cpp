#include "data/image/decode.h"

#include <algorithm>
#include <array>
#include <string>

#include "data/image/jpeg.h"
#include "data/image/png.h"

namespace lockstep::data::image {
namespace {

template <std::size_t N>
bool starts_with(Bytes file, const std::array<std::uint8_t, N>& magic) {
  return file.size() >= N && std::equal(magic.begin(), magic.end(), file.begin());
}

}  // namespace

Result<Format> format_of(Bytes file, std::string_view name) {
  constexpr std::array<std::uint8_t, 3> kJpeg = {0xFF, 0xD8, 0xFF};
  constexpr std::array<std::uint8_t, 8> kPng = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
  if (starts_with(file, kJpeg)) return Format::kJpeg;
  if (starts_with(file, kPng)) return Format::kPng;
  return Error{ErrorKind::kBadData, std::string(name) + ": neither JPEG nor PNG (" +
                                        std::to_string(file.size()) +
                                        " bytes, told by the first of them); convert or remove it"};
}

Status decode(Bytes file, std::string_view name, Image& out, const DecodeLimits& limits) {
  LOCKSTEP_ASSIGN(const Format format, format_of(file, name));
  if (format == Format::kPng) return decode_png(file, name, out, limits);
  LOCKSTEP_TRY(decode_jpeg(file, name, nullptr, out, limits));
  return {};
}

Status check_region(const Region& region, int width, int height, std::string_view name) {
  const auto inside = [](int begin, int count, int size) {
    return begin >= 0 && count >= 1 && begin <= size - count;
  };
  if (inside(region.left, region.width, width) && inside(region.top, region.height, height))
    return {};
  return Error{ErrorKind::kUsage,
               std::string(name) + ": a part of " + std::to_string(region.width) + " x " +
                   std::to_string(region.height) + " pixels from (" + std::to_string(region.left) +
                   ", " + std::to_string(region.top) + ") on was asked for, the picture has " +
                   std::to_string(width) + " x " + std::to_string(height)};
}

Result<PixelView> decode_region(Bytes file, std::string_view name, const ChooseRegion& choose,
                                Image& out, const DecodeLimits& limits) {
  LOCKSTEP_ASSIGN(const Format format, format_of(file, name));
  if (format == Format::kJpeg) return decode_jpeg(file, name, choose, out, limits);
  LOCKSTEP_TRY(decode_png(file, name, out, limits));
  const Region region = choose(out.width(), out.height());
  LOCKSTEP_TRY(check_region(region, out.width(), out.height(), name));
  return out.part(region);
}

}  // namespace lockstep::data::image

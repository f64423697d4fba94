#include "data/image/decode.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "data/image/jpeg.h"
#include "data/image/png.h"

namespace lockstep::data::image {
namespace {

template <std::size_t N>
bool starts_with(Bytes file, const std::array<std::uint8_t, N>& magic) {
  return file.size() >= N && std::equal(magic.begin(), magic.end(), file.begin());
}

void cut(const Image& from, const Region& region, Image& out) {
  out.resize(region.width, region.height);
  for (int y = 0; y < region.height; ++y)
    std::memcpy(out.row(y), from.row(region.top + y) + region.left * kChannels, out.row_bytes());
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
  return decode_jpeg(file, name, nullptr, out, limits);
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

Status decode_region(Bytes file, std::string_view name, const ChooseRegion& choose, Image& out,
                     const DecodeLimits& limits) {
  LOCKSTEP_ASSIGN(const Format format, format_of(file, name));
  if (format == Format::kJpeg) return decode_jpeg(file, name, choose, out, limits);
  Image whole;
  LOCKSTEP_TRY(decode_png(file, name, whole, limits));
  const Region region = choose(whole.width(), whole.height());
  LOCKSTEP_TRY(check_region(region, whole.width(), whole.height(), name));
  cut(whole, region, out);
  return {};
}

}  // namespace lockstep::data::image

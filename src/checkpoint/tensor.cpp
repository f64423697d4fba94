#include "checkpoint/tensor.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>

#include "base/hash.h"
#include "base/text.h"

namespace lockstep::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

struct Row {
  std::string_view name;
  std::size_t size;
};

// In the order of the enum.
constexpr std::array<Row, 16> kTypes{{{"BOOL", 1},
                                      {"U8", 1},
                                      {"I8", 1},
                                      {"F8_E5M2", 1},
                                      {"F8_E4M3", 1},
                                      {"I16", 2},
                                      {"U16", 2},
                                      {"F16", 2},
                                      {"BF16", 2},
                                      {"I32", 4},
                                      {"U32", 4},
                                      {"F32", 4},
                                      {"F64", 8},
                                      {"I64", 8},
                                      {"U64", 8},
                                      {"", 0}}};

// What safetensors has besides.
constexpr std::array<std::pair<std::string_view, unsigned>, 7> kOtherBits{{{"F4", 4},
                                                                           {"F6_E2M3", 6},
                                                                           {"F6_E3M2", 6},
                                                                           {"F8_E8M0", 8},
                                                                           {"F8_E4M3FNUZ", 8},
                                                                           {"F8_E5M2FNUZ", 8},
                                                                           {"C64", 64}}};

Error too_large(const TensorInfo& info) {
  return {ErrorKind::kBadData, "tensor " + quote(info.name) + ": " + describe(info) +
                                   " is larger than 64 bits can count"};
}

const Row& row(DType dtype) { return kTypes[static_cast<std::size_t>(dtype)]; }

}  // namespace

std::string_view name_of(DType dtype) { return row(dtype).name; }
std::size_t size_of(DType dtype) { return row(dtype).size; }

std::optional<DType> dtype_of(std::string_view name) {
  const auto* const found = std::ranges::find(kTypes, name, &Row::name);
  if (name.empty() || found == kTypes.end()) return std::nullopt;
  return static_cast<DType>(found - kTypes.begin());
}

std::optional<unsigned> bits_of(std::string_view name) {
  if (const auto dtype = dtype_of(name)) return static_cast<unsigned>(8 * size_of(*dtype));
  for (const auto& [other, bits] : kOtherBits)
    if (name == other) return bits;
  return std::nullopt;
}

Result<std::uint64_t> element_count(const TensorInfo& info) {
  std::uint64_t count = 1;
  for (const std::uint64_t extent : info.shape)
    if (__builtin_mul_overflow(count, extent, &count)) return too_large(info);
  return count;
}

Result<std::optional<std::uint64_t>> stored_size(const TensorInfo& info) {
  LOCKSTEP_ASSIGN(const std::uint64_t count, element_count(info));
  const std::optional<unsigned> bits = bits_of(info.dtype_name());
  if (!bits) return std::optional<std::uint64_t>();
  if (*bits % 8 != 0 && count % 8 * *bits % 8 != 0)
    return Error{ErrorKind::kBadData, "tensor " + quote(info.name) + ": " + describe(info) +
                                          " ends within a byte: elements have " +
                                          std::to_string(*bits) + " bits"};
  const std::uint64_t whole = count / 8, rest = count % 8 * *bits / 8;
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(whole, *bits, &bytes) || __builtin_add_overflow(bytes, rest, &bytes))
    return too_large(info);
  return std::optional(bytes);
}

Result<std::uint64_t> byte_size(const TensorInfo& info) {
  if (!info.readable()) return unreadable(info);
  LOCKSTEP_ASSIGN(const auto bytes, stored_size(info));
  return *bytes;
}

Error unreadable(const TensorInfo& info) {
  const std::string who = info.name.empty() ? "a tensor" : "tensor " + quote(info.name);
  return {ErrorKind::kBadData,
          who + " is " + describe(info) + ", of a kind that is listed and not read"};
}

std::string describe(const TensorInfo& info) {
  std::string text = info.dtype_name();
  text += " [";
  for (std::size_t i = 0; i < info.shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(info.shape[i]);
  }
  return text + "]";
}

std::string quote(std::string_view name) {
  std::size_t end = std::min<std::size_t>(name.size(), 120);
  while (end > 0 && end < name.size() && (name[end] & 0xC0) == 0x80) --end;  // a whole character
  std::string text = "'";
  for (const char c : for_terminal(name.substr(0, end))) {
    if (c == '\n' || c == '\t')
      text += c == '\n' ? "\\n" : "\\t";  // one line
    else
      text += c;
  }
  return text + (end < name.size() ? "...'" : "'");
}

std::string weights_sha256(std::span<const NamedBytes> tensors) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {},
                    [&](std::size_t i) { return std::string_view(tensors[i].info.name); });
  Sha256 hash;
  for (const std::size_t i : order) {
    hash.update(tensors[i].info.name);
    hash.update(tensors[i].bytes);
  }
  return hash.hex();
}

}  // namespace lockstep::checkpoint

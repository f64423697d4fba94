#include "data/archive/sparse.h"

#include <algorithm>
#include <array>

#include "base/errors.h"
#include "base/text.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kMostParts = 1 << 20;

Error bad_map(const std::string& what) { return bad_data("a sparse file in the archive: " + what); }

Result<SparseMap> map_of(std::uint64_t size, std::span<const std::uint64_t> numbers) {
  if (numbers.size() % 2 != 0) return bad_map("its map has an offset without a size");
  SparseMap map{size, {}};
  for (std::size_t i = 0; i < numbers.size(); i += 2)
    LOCKSTEP_TRY(map.add(numbers[i], numbers[i + 1]));
  return map;
}

}  // namespace

Status SparseMap::add(std::uint64_t at, std::uint64_t bytes) {
  if (parts.size() == kMostParts)
    return bad_map("more than " + std::to_string(kMostParts) + " parts");
  parts.push_back({at, bytes});
  return {};
}

Status SparseMap::check(std::uint64_t stored) const {
  std::uint64_t end = 0, sum = 0;
  for (const Part& part : parts) {
    if (part.at < end || part.at > size || part.bytes > size - part.at)
      return bad_map("its part at " + std::to_string(part.at) + " of " +
                     std::to_string(part.bytes) + " bytes does not fit in a file of " +
                     std::to_string(size));
    end = part.at + part.bytes;
    sum += part.bytes;
  }
  return sum == stored ? Status()
                       : bad_map("its parts have " + std::to_string(sum) + " bytes, and " +
                                 std::to_string(stored) + " are stored");
}

Status PaxSparse::take(std::string_view key, std::string_view value) {
  if (key == "name") {
    name_ = value;
    return {};
  }
  if (key == "map") {
    numbers_.clear();
    for (std::size_t at = 0; at <= value.size() && !value.empty();) {
      const std::size_t end = std::min(value.find(',', at), value.size());
      const auto number = number_of<std::uint64_t>(value.substr(at, end - at));
      if (!number || numbers_.size() == 2 * kMostParts) return bad_map("a damaged map");
      numbers_.push_back(*number);
      at = end + 1;
    }
    return {};
  }
  const auto number = number_of<std::uint64_t>(value);
  if (!number) return bad_map("'" + std::string(key.substr(0, 40)) + "' is no number");
  if (key == "size" || key == "realsize") size_ = *number;
  if (key == "major") major_ = *number;
  if (key == "offset" || key == "numbytes") {
    // They come in pairs, an offset first.
    if ((key == "offset") != (numbers_.size() % 2 == 0)) return bad_map("a damaged map");
    numbers_.push_back(*number);
  }
  return {};
}

Result<SparseMap> PaxSparse::map() const {
  if (!size_) return bad_map("it has no size");
  if (major_ != 0) return bad_map("format " + std::to_string(major_) + ", 0 and 1 are read");
  return map_of(*size_, numbers_);
}

Result<SparseMap> PaxSparse::read_map(const NextBlock& next_block) const {
  if (!size_) return bad_map("it has no size");
  std::string_view block;
  const auto number = [&]() -> Result<std::uint64_t> {
    std::string digits;
    for (;;) {
      if (block.empty()) {
        LOCKSTEP_ASSIGN(block, next_block());
      }
      const char c = block.front();
      block.remove_prefix(1);
      if (c == '\n') break;
      digits += c;
      if (digits.size() > 20) return bad_map("a damaged map");
    }
    const auto value = number_of<std::uint64_t>(digits);
    return value ? Result<std::uint64_t>(*value) : bad_map("a damaged map");
  };
  LOCKSTEP_ASSIGN(const std::uint64_t count, number());
  SparseMap map{*size_, {}};
  for (std::uint64_t i = 0; i < count; ++i) {
    LOCKSTEP_ASSIGN(const std::uint64_t at, number());
    LOCKSTEP_ASSIGN(const std::uint64_t bytes, number());
    LOCKSTEP_TRY(map.add(at, bytes));
  }
  return map;
}

Status SparseContent::zeros_up_to(std::uint64_t at) {
  static constexpr std::array<std::byte, 1 << 16> kZeros{};
  while (written_ < at) {
    const auto bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(at - written_, kZeros.size()));
    LOCKSTEP_TRY(give_(std::span(kZeros).first(bytes)));
    written_ += bytes;
  }
  return {};
}

Status SparseContent::stored(std::span<const std::byte> piece) {
  while (!piece.empty()) {
    const SparseMap::Part& part = map_.parts[part_];
    if (in_part_ == part.bytes) {
      ++part_;
      in_part_ = 0;
      continue;
    }
    LOCKSTEP_TRY(zeros_up_to(part.at));
    const auto bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(piece.size(), part.bytes - in_part_));
    LOCKSTEP_TRY(give_(piece.first(bytes)));
    written_ += bytes;
    in_part_ += bytes;
    piece = piece.subspan(bytes);
  }
  return {};
}

Status SparseContent::end() { return zeros_up_to(map_.size); }

}  // namespace lockstep::data

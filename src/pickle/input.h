// Bytes with a place in them. Reading past the end gives zeros and is remembered.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

namespace lockstep::pickle {

class Input {
 public:
  explicit Input(std::span<const std::byte> bytes)
      : text_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}

  std::size_t at() const { return at_; }
  std::size_t size() const { return text_.size(); }
  std::size_t left() const { return text_.size() - at_; }
  bool cut() const { return cut_; }  // something was asked for that is not there

  std::string_view take(std::uint64_t bytes) {
    if (bytes > left()) {
      cut_ = true;
      return {};
    }
    const std::string_view taken = text_.substr(at_, static_cast<std::size_t>(bytes));
    at_ += taken.size();
    return taken;
  }

  // Without its newline; longer than `limit`, or without one: cut.
  std::string_view line(std::size_t limit) {
    const std::size_t end = text_.substr(at_, limit + 1).find('\n');
    cut_ = cut_ || end == std::string_view::npos;
    if (cut_) return {};
    const std::string_view taken = take(end);
    ++at_;
    return taken;
  }

  template <class Int>
  Int little() {
    Int value = 0;
    const std::string_view bytes = take(sizeof(Int));
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), sizeof(Int));
    return value;
  }

  double big_double() {
    const auto bits = __builtin_bswap64(little<std::uint64_t>());
    return std::bit_cast<double>(bits);
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
  bool cut_ = false;
};

static_assert(std::endian::native == std::endian::little, "the formats are little-endian");

}  // namespace lockstep::pickle

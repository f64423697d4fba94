// Fields of messages as bytes: integers of fixed width, little-endian; bool as one byte 0 or 1;
// text and lists with a u32 count in front; an optional as a bool and then the value.
//
// A message has one function `fields(io, m)`, which calls io(m.field) in the order of the wire, and
// serves both. Ownership: values. Threads: an object from one at a time.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "lockstep/status.h"

namespace lockstep {

static_assert(std::endian::native == std::endian::little,
              "the wire format is written in host order");

// A message that is written, and so const, or read.
template <class M, class Want>
concept Is = std::is_same_v<std::remove_const_t<M>, Want>;

// One that says all by its type.
template <class M>
requires std::is_empty_v<M>
void fields(auto& /*io*/, M& /*message*/) {}

template <class T>
concept WireNumber = std::is_integral_v<T> && !std::is_same_v<T, bool>;

class WireWriter {
 public:
  void operator()(const WireNumber auto& value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void operator()(const bool& value) { (*this)(static_cast<std::uint8_t>(value ? 1 : 0)); }
  void operator()(const ErrorKind& kind) { one_of(kind, ErrorKind::kInternal); }
  // As one byte; `last` is the enum's greatest.
  template <class Enum>
  void one_of(const Enum& value, Enum /*last*/) {
    (*this)(static_cast<std::uint8_t>(value));
  }
  template <class Tag, class V>
  void operator()(const Id<Tag, V>& id) {
    (*this)(id.value());
  }
  void operator()(std::string_view text) {
    (*this)(static_cast<std::uint32_t>(text.size()));
    out_ += text;
  }
  template <class T>
  void operator()(const std::optional<T>& value) {
    maybe(value, [](WireWriter& io, const T& one) { io(one); });
  }
  void operator()(const std::vector<std::string>& texts) {
    list(texts, [](WireWriter& io, const std::string& text) { io(text); });
  }
  void operator()(const std::vector<std::pair<std::string, std::string>>& pairs) {
    list(pairs, [](WireWriter& io, const auto& pair) { io(pair.first), io(pair.second); });
  }
  // An optional, its value by `one(*this, value)`.
  template <class T, class One>
  void maybe(const std::optional<T>& value, One one) {
    (*this)(value.has_value());
    if (value) one(*this, *value);
  }
  // A count, and each by `one(*this, item)`.
  template <class T, class One>
  void list(const std::vector<T>& items, One one) {
    (*this)(static_cast<std::uint32_t>(items.size()));
    for (const T& item : items) one(*this, item);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

// Never reads past the end; after the first fault every field stays as it is.
class WireReader {
 public:
  explicit WireReader(std::string_view in) : in_(in) {}

  void operator()(WireNumber auto& value) {
    if (!need(sizeof(value), "a number")) return;
    std::memcpy(&value, in_.data(), sizeof(value));
    in_.remove_prefix(sizeof(value));
  }
  void operator()(bool& value) {
    std::uint8_t byte = 0;
    (*this)(byte);
    if (byte > 1) return fail("a flag is " + std::to_string(byte) + ", not 0 or 1");
    value = byte != 0;
  }
  void operator()(ErrorKind& kind) { one_of(kind, ErrorKind::kInternal); }
  template <class Enum>
  void one_of(Enum& value, Enum last) {
    std::uint8_t byte = 0;
    (*this)(byte);
    if (byte > static_cast<std::uint8_t>(last))
      return fail("a choice is " + std::to_string(byte) + ", the last one " +
                  std::to_string(static_cast<int>(last)));
    value = static_cast<Enum>(byte);
  }
  template <class Tag, class V>
  void operator()(Id<Tag, V>& id) {
    V value{};
    (*this)(value);
    id = Id<Tag, V>(value);
  }
  // Of the bytes that are read.
  void operator()(std::string_view& text) {
    std::uint32_t size = 0;
    (*this)(size);
    if (!need(size, "a text")) return;
    text = in_.substr(0, size);
    in_.remove_prefix(size);
  }
  void operator()(std::string& text) {
    std::string_view here = text;
    (*this)(here);
    if (fault_.empty()) text = here;
  }
  template <class T>
  void operator()(std::optional<T>& value) {
    maybe(value, [](WireReader& io, T& one) { io(one); });
  }
  void operator()(std::vector<std::string>& texts) {
    list(texts, [](WireReader& io, std::string& text) { io(text); });
  }
  void operator()(std::vector<std::pair<std::string, std::string>>& pairs) {
    list(pairs, [](WireReader& io, auto& pair) { io(pair.first), io(pair.second); });
  }
  template <class T, class One>
  void maybe(std::optional<T>& value, One one) {
    bool present = false;
    (*this)(present);
    if (present && fault_.empty()) one(*this, value.emplace());
  }
  // An item takes a byte at least, so a list ends where the bytes do.
  template <class T, class One>
  void list(std::vector<T>& items, One one) {
    std::uint32_t count = 0;
    (*this)(count);
    if (count > in_.size()) return fail("a list says " + std::to_string(count) + " entries");
    for (std::uint32_t i = 0; i < count && fault_.empty(); ++i) one(*this, items.emplace_back());
  }

  void expect_end() {
    if (!in_.empty()) fail(std::to_string(in_.size()) + " bytes follow the last field");
  }
  const std::string& fault() const { return fault_; }
  // What was read cannot be. The first fault is kept.
  void fail(std::string what) {
    if (fault_.empty()) fault_ = std::move(what);
  }

 private:
  bool need(std::size_t bytes, const char* what) {
    if (!fault_.empty()) return false;
    if (bytes <= in_.size()) return true;
    fail(std::string(what) + " of " + std::to_string(bytes) + " bytes, but " +
         std::to_string(in_.size()) + " are left");
    return false;
  }

  std::string_view in_;
  std::string fault_;
};

// A message of that type: alternative `index`, below their number, with `fields(reader, message)`;
// nothing may follow. What is wrong is in reader.fault().
template <class Variant>
Variant read_alternative(WireReader& reader, std::size_t index, auto fields) {
  Variant message;
  const auto read = [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((I == index ? fields(reader, message.template emplace<I>()) : void()), ...);
  };
  read(std::make_index_sequence<std::variant_size_v<Variant>>());
  reader.expect_end();
  return message;
}

}  // namespace lockstep

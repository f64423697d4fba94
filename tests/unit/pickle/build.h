// Pickles opcode by opcode, and values as text that can be compared.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <sstream>
#include <string>

#include "pickle/array.h"
#include "pickle/reader.h"

namespace lockstep::pickle::test {

inline std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i, value >>= 8) text.push_back(static_cast<char>(value & 0xff));
  return text;
}
inline std::string pickled(const std::string& body) { return "\x80\x02" + body + "."; }
inline std::string unicode(const std::string& s) { return "X" + little(s.size(), 4) + s; }
inline std::string old_str(const std::string& s) { return "U" + little(s.size(), 1) + s; }
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string int1(int n) { return "K" + little(static_cast<std::uint64_t>(n), 1); }
inline std::string int4(std::int64_t n) { return "J" + little(static_cast<std::uint64_t>(n), 4); }
inline std::string number(double value) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return "G" + little(__builtin_bswap64(bits), 8);
}
inline std::string times(const std::string& s, std::size_t n) {
  std::string all;
  while (n-- > 0) all += s;
  return all;
}

inline std::span<const std::byte> bytes_of(const std::string& s) {
  return std::as_bytes(std::span(s));
}

inline std::string show(const Value& value);
inline std::string show_all(const Items& items) {
  std::string text;
  for (const Value& item : items) text += (text.empty() ? "" : ", ") + show(item);
  return text;
}
inline std::string show_dict(const Dict& dict) {
  std::string text;
  for (const auto& [key, item] : dict.pairs)
    text += (text.empty() ? "" : ", ") + show(key) + ": " + show(item);
  text = (dict.object ? "object{" : "{") + text + "}";
  if (dict.ordered) text = "Ordered" + text;
  if (!dict.attributes.is_none()) text += "+" + show(dict.attributes);
  return text;
}
inline std::string show_object(const Value& value) {
  const auto array = value.as<Array>();
  if (array == nullptr)
    return value.as<Opaque>() != nullptr ? "<" + value.type() + ">" : value.type();
  std::ostringstream text;
  text << "array(" << array->dtype() << (array->fortran_order() ? " F" : " C");
  for (const auto n : array->shape()) text << " " << n;
  text << " |";
  for (const char c : array->bytes()) text << " " << int{static_cast<unsigned char>(c)};
  return text.str() + ")";
}
// As Python's repr, roughly; an int is 1, a float 1.0.
inline std::string show(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return *value.boolean() ? "True" : "False";
    case Kind::kInt:
      return std::to_string(*value.integer());
    case Kind::kFloat: {
      std::ostringstream text;
      text.precision(17);
      text << *value.number();
      return text.str() + "f";
    }
    case Kind::kStr:
      return "'" + *value.str() + "'";
    case Kind::kBytes:
      return "b'" + *value.bytes() + "'";
    case Kind::kSequence:
      return value.tuple_items() != nullptr ? "(" + show_all(*value.tuple_items()) + ")"
                                            : "[" + show_all(*value.list_items()) + "]";
    case Kind::kSet:
      return (value.set_value()->frozen ? "frozenset(" : "set(") +
             show_all(value.set_value()->items) + ")";
    case Kind::kDict:
      return show_dict(*value.dict_value());
    case Kind::kObject:
      return show_object(value);
  }
  return "?";
}

inline Result<Document> read_plain(const std::string& pickle, const Limits& limits = {}) {
  static const Table kTable = table_of({plain_globals(), numpy_globals()});
  return read(bytes_of(pickle), {kTable, {}, "save plain data", limits, "__torch__."});
}
// The value as text, or "error: ...".
inline std::string shown(const std::string& pickle, const Limits& limits = {}) {
  const auto document = read_plain(pickle, limits);
  return document.ok() ? show(document->root) : "error: " + document.error().message;
}

}  // namespace lockstep::pickle::test

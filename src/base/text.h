// Numbers as text, the same in every locale; bytes from outside as text that is UTF-8.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace lockstep {

// The shortest text that reads back as the same number.
template <class Number>
std::string shortest(Number number) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

// All of `text` is one number that fits; else nothing.
template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number number{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end ? std::optional(number) : std::nullopt;
}

// The number that follows `name` at the front of `line`, both taken off; nothing: neither is there.
template <class Number>
std::optional<Number> take_number(std::string_view& line, std::string_view name) {
  if (!line.starts_with(name)) return std::nullopt;
  Number number{};
  const char* const begin = line.data() + name.size();
  const auto [stop, error] = std::from_chars(begin, line.data() + line.size(), number);
  if (error != std::errc()) return std::nullopt;
  line.remove_prefix(static_cast<std::size_t>(stop - line.data()));
  return number;
}

// The parts between the separators: one more than there are of these.
std::vector<std::string> split(std::string_view text, char separator);

// What comes from outside (a path, a name, an id) as every file, page and line has it: valid UTF-8
// unchanged, each other byte as "\xHH". Files that programs read go through base/json.h.
std::string printable(std::string_view text);

// For a terminal and for the lines of a log: printable(), and control characters too (ESC and the
// like, in names that files hold) as "\x1b"; line ends and tabs stay.
std::string for_terminal(std::string_view text);

// As safe_substitute() of Python's string.Template: $name and ${name} become the value, $$ becomes
// $; other names, and what is no name, stay as they are.
std::string substitute(std::string_view pattern,
                       const std::function<std::optional<std::string>(std::string_view)>& value_of);

// to_string() without its string.
inline void append_number(std::string& out, std::uint64_t number) {
  std::array<char, 20> text;
  out.append(text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr);
}

// As Python's %.Nf: printf's in the C locale, but that a NaN has no sign.
inline std::string with_decimals(double number, int decimals) {
  if (std::isnan(number)) return "nan";
  std::array<char, 400> text;  // the largest double has 309 digits
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number,
                                     std::chars_format::fixed, decimals)
                           .ptr};
}

}  // namespace lockstep

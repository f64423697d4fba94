// Numbers as text, the same in every locale.
#pragma once

#include <array>
#include <charconv>
#include <cstdint>
#include <string>

namespace lockstep {

// The shortest text that reads back as the same number.
template <class Number>
std::string shortest(Number number) {
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr};
}

// to_string() without its string.
inline void append_number(std::string& out, std::uint64_t number) {
  std::array<char, 20> text;
  out.append(text.data(), std::to_chars(text.data(), text.data() + text.size(), number).ptr);
}

// As printf's %.Nf in the C locale.
inline std::string with_decimals(double number, int decimals) {
  std::array<char, 400> text;  // the largest double has 309 digits
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number,
                                     std::chars_format::fixed, decimals)
                           .ptr};
}

}  // namespace lockstep

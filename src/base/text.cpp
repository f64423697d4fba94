#include "base/text.h"

#include <algorithm>

namespace lockstep {
namespace {

// Bytes of the UTF-8 character at the front of `text`; 0: there is none. (Unicode 15, table 3-7:
// nothing overlong, no surrogates, nothing above U+10FFFF.)
std::size_t character_at(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto within = [&](std::size_t i, int least, int most) {
    return i < text.size() && byte(i) >= least && byte(i) <= most;
  };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return within(1, 0x80, 0xBF) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool second = within(1, lead == 0xE0 ? 0xA0 : 0x80, lead == 0xED ? 0x9F : 0xBF);
    return second && within(2, 0x80, 0xBF) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool second = within(1, lead == 0xF0 ? 0x90 : 0x80, lead == 0xF4 ? 0x8F : 0xBF);
    return second && within(2, 0x80, 0xBF) && within(3, 0x80, 0xBF) ? 4 : 0;
  }
  return 0;
}

// Those of ASCII, and those that follow it: U+0080 to U+009F, of which one begins the same
// sequences as ESC does.
bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1)
    return (first < 0x20 && character[0] != '\n' && character[0] != '\t') || first == 0x7F;
  return first == 0xC2 && static_cast<unsigned char>(character[1]) < 0xA0;
}

void append_bytes(std::string& out, std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    (out += "\\x") += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
}

std::string escaped_text(std::string_view text, bool controls) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t size = character_at(text);
    const std::string_view front = text.substr(0, size == 0 ? 1 : size);
    if (size == 0 || (controls && is_control(front)))
      append_bytes(out, front);
    else
      out += front;
    text.remove_prefix(front.size());
  }
  return out;
}

}  // namespace

std::string substitute(
    std::string_view pattern,
    const std::function<std::optional<std::string>(std::string_view)>& value_of) {
  const auto is_name = [](char c, bool first) {
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (!first && c >= '0' && c <= '9');
  };
  std::string out;
  while (!pattern.empty()) {
    const std::size_t sign = std::min(pattern.find('$'), pattern.size());
    out += pattern.substr(0, sign);
    pattern.remove_prefix(sign);
    if (pattern.empty()) break;
    const bool braced = pattern.starts_with("${");
    const std::size_t begin = braced ? 2 : 1;
    std::size_t end = begin;
    while (end < pattern.size() && is_name(pattern[end], end == begin)) ++end;
    const std::string_view name = pattern.substr(begin, end - begin);
    const bool whole = !name.empty() && (!braced || (end < pattern.size() && pattern[end] == '}'));
    const auto value = whole ? value_of(name) : std::nullopt;
    // What is not known goes out sign by sign: a later one may begin anew.
    std::size_t used = value ? end + (braced ? 1 : 0) : 1;
    if (pattern.starts_with("$$")) used = 2;
    out += value ? *value : "$";
    pattern.remove_prefix(used);
  }
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    const std::size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string printable(std::string_view text) { return escaped_text(text, false); }

std::string for_terminal(std::string_view text) { return escaped_text(text, true); }

}  // namespace lockstep

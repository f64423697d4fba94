#include "base/text.h"

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

std::string printable(std::string_view text) { return escaped_text(text, false); }

std::string for_terminal(std::string_view text) { return escaped_text(text, true); }

}  // namespace lockstep

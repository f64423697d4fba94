#include "data/vision/look_alike.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::data {
namespace {

using Points = std::vector<std::uint32_t>;

// Code points; nothing where it is no UTF-8.
std::optional<Points> points_of(std::string_view text) {
  Points points;
  for (std::size_t i = 0; i < text.size();) {
    const auto first = static_cast<unsigned char>(text[i]);
    const std::size_t length = first < 0x80             ? 1
                               : (first & 0xE0) == 0xC0 ? 2
                               : (first & 0xF0) == 0xE0 ? 3
                               : (first & 0xF8) == 0xF0 ? 4
                                                        : 0;
    if (length == 0 || text.size() - i < length) return {};
    std::uint32_t point = length == 1 ? first : first & (0xFFU >> (length + 1));
    for (std::size_t j = 1; j < length; ++j) {
      const auto next = static_cast<unsigned char>(text[i + j]);
      if ((next & 0xC0) != 0x80) return {};
      point = point << 6 | (next & 0x3FU);
    }
    points.push_back(point);
    i += length;
  }
  return points;
}

// Combining marks of Latin, Greek and Cyrillic letters, and of kana.
bool is_mark(std::uint32_t point) {
  return (point >= 0x300 && point <= 0x36F) || point == 0x3099 || point == 0x309A;
}

// Hangul syllables into their letters (The Unicode Standard, 3.12).
Points taken_apart(const Points& points) {
  constexpr std::uint32_t kFirst = 0xAC00, kLast = 0xD7A3, kVowels = 21, kTails = 28;
  Points out;
  for (const std::uint32_t point : points) {
    if (point < kFirst || point > kLast) {
      out.push_back(point);
      continue;
    }
    const std::uint32_t index = point - kFirst;
    out.push_back(0x1100 + index / (kVowels * kTails));
    out.push_back(0x1161 + index / kTails % kVowels);
    if (index % kTails != 0) out.push_back(0x11A7 + index % kTails);
  }
  return out;
}

// A letter and its marks.
struct Letter {
  std::uint32_t base;
  Points marks;
};

std::vector<Letter> letters_of(const Points& points) {
  std::vector<Letter> letters;
  for (const std::uint32_t point : taken_apart(points)) {
    if (is_mark(point) && !letters.empty())
      letters.back().marks.push_back(point);
    else
      letters.push_back({point, {}});
  }
  return letters;
}

// Without a table of what letters are composed of: one of its own stands for any base with marks.
bool composed_alike(const Letter& one, const Letter& other) {
  if (one.base == other.base && one.marks == other.marks) return true;
  const auto is_own = [](const Letter& letter) { return letter.base > 0x7F; };
  return (is_own(one) && one.marks.size() < other.marks.size()) ||
         (is_own(other) && other.marks.size() < one.marks.size());
}

std::string lower_case(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// Without any: ASCII's, and U+00A0, which looks like one.
std::string without_spaces(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i).starts_with("\xC2\xA0"))
      ++i;
    else if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r' && text[i] != '\n')
      out += text[i];
  }
  return out;
}

std::string from_latin1(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80)
      out += c;
    else
      (out += static_cast<char>(0xC0 | byte >> 6)) += static_cast<char>(0x80 | (byte & 0x3F));
  }
  return out;
}

}  // namespace

std::string only_difference(std::string_view one, std::string_view other) {
  if (one == other) return "";
  if (lower_case(one) == lower_case(other)) return "in capitals";
  if (without_spaces(one) == without_spaces(other)) return "in spaces";
  const auto ours = points_of(one), theirs = points_of(other);
  if (!ours || !theirs) {
    const bool latin1 =
        (!ours && from_latin1(one) == other) || (!theirs && from_latin1(other) == one);
    return latin1 ? "in their encoding (UTF-8 and Latin-1)" : "";
  }
  return std::ranges::equal(letters_of(*ours), letters_of(*theirs), composed_alike)
             ? "in how Unicode composes their letters (NFC and NFD, as of Linux and macOS)"
             : "";
}

std::string shown_bytes(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string out;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= ' ' && byte < 0x7F)
      out += c;
    else
      (out += "\\x") += {kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

}  // namespace lockstep::data

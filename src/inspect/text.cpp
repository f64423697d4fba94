#include "inspect/text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace lockstep::inspect {
namespace {

std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

// Names come from outside: a line end in one would break the table.
std::string in_one_line(std::string_view text) {
  std::string cell;
  for (const char c : for_terminal(text))
    if (c == '\n' || c == '\t')
      cell += c == '\n' ? "\\n" : "\\t";
    else
      cell += c;
  return cell;
}

}  // namespace

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 999.95 && unit + 1 < kUnits.size(); ++unit) value /= 1000;
  return with_decimals(value, unit == 0 ? 0 : 1) + " " + kUnits[unit];
}

std::string age_text(double seconds) {
  struct Unit {
    double seconds;
    const char* name;
  };
  constexpr std::array<Unit, 3> kUnits{{{86400, " d"}, {3600, " h"}, {60, " min"}}};
  const double age = std::max(seconds, 0.0);
  for (const Unit& unit : kUnits)
    if (age >= unit.seconds) return with_decimals(std::floor(age / unit.seconds), 0) + unit.name;
  return with_decimals(std::floor(age), 0) + " s";
}

std::string number_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  constexpr int kDigits = 6;
  std::array<char, 32> text;
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number,
                                     std::chars_format::general, kDigits)
                           .ptr};
}

std::string counted(std::uint64_t n, std::string_view noun) {
  return grouped(n) + " " + std::string(noun) + (n == 1 ? "" : "s");
}

std::string text_table(std::span<const std::vector<std::string>> given,
                       std::span<const std::size_t> right) {
  std::vector<std::vector<std::string>> rows(given.begin(), given.end());
  for (auto& row : rows)
    for (std::string& cell : row) cell = in_one_line(cell);
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], width_of(row[c]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - width_of(row[c]), ' ');
      const bool flush = std::ranges::find(right, c) != right.end();
      line += (c == 0 ? "" : "  ") + (flush ? space + row[c] : row[c] + space);
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string file_name_of(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '_';
    name += plain ? c : '-';
  }
  return name;
}

}  // namespace lockstep::inspect

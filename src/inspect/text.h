// Numbers and tables for people to read. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::inspect {

std::string grouped(std::uint64_t number);    // "1,234,567"
std::string bytes_text(std::uint64_t bytes);  // "134.2 MB", of 10^6 bytes
std::string age_text(double seconds);         // "3 min"; the largest unit that gives at least 1
std::string number_text(double number);       // six significant digits, "nan", "inf"
std::string counted(std::uint64_t n, std::string_view noun);  // "1 file", "2 files"

// Columns as wide as their widest cell, two spaces between; `right` names those that end flush (of
// numbers). A row may be shorter than others. Width is counted in code points of UTF-8.
std::string text_table(std::span<const std::vector<std::string>> given,
                       std::span<const std::size_t> right = {});

// As a file: what is no letter, digit, dot, dash or underscore becomes a dash.
std::string file_name_of(std::string_view text);

}  // namespace lockstep::inspect

// Names that people take for the same one, and programs do not.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::data {

// In what two names differ that look alike: "in capitals", "in spaces", "in how Unicode composes
// their letters …", "in their encoding …"; empty for names that do not, and for equal ones.
std::string only_difference(std::string_view one, std::string_view other);

// Each byte that is not printable ASCII as "\xHH".
std::string shown_bytes(std::string_view name);

}  // namespace lockstep::data

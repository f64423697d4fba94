// The nearest known name to a mistyped one, for messages of the form "unknown option '--eopchs';
// did you mean '--epochs'?".
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

// Least edit distance (insert, delete, replace, swap of neighbours), at most a third of the name's
// length; or else the first that begins with the name, if that has four characters. none: nullopt.
std::optional<std::string> nearest_name(std::string_view name, std::span<const std::string> known);

// "; did you mean 'fork'?" for the end of a message; empty without a near name.
std::string suggestion(std::string_view name, std::span<const std::string> known);

}  // namespace lockstep

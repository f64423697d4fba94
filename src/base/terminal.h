// The terminal that somebody looks at, if there is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

// To the line's start, and all of it away.
inline constexpr std::string_view kEraseLine = "\r\x1b[K";

// Columns of the terminal behind `fd`, less the last, in which it would wrap; 0: it is none, or one
// that knows no control sequences (TERM is not set, or "dumb").
std::size_t terminal_columns(int fd);

// `[######....]  60 %  `, `width` characters within the brackets. `all` is above 0.
std::string progress_bar(std::uint64_t some, std::uint64_t all, std::size_t width);

}  // namespace lockstep

// Pages that are whole in one file: no script, no address of anything else, light or dark as the
// reader's screen is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep::inspect {

// Colours of a page's style, --s0 and so on.
inline constexpr std::size_t kPageColours = 8;

// For text and for attributes in double quotes; control characters become U+FFFD,
// bytes that are not UTF-8 "\xHH".
std::string escaped(std::string_view text);

// `title` is text, `body` is HTML.
std::string html_page(std::string_view title, std::string_view body);

std::string base64(std::span<const std::uint8_t> bytes);  // RFC 4648, padded

}  // namespace lockstep::inspect

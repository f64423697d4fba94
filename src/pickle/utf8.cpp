#include "pickle/utf8.h"

#include <cstdint>

namespace lockstep::pickle {
namespace {

// Bytes that follow a lead byte, and the smallest code point that needs so many.
struct Form {
  int more;
  std::uint32_t least;
  std::uint32_t bits;
};

Form form_of(unsigned char lead) {
  if (lead < 0x80) return {0, 0, lead};
  if (lead < 0xc0) return {-1, 0, 0};
  if (lead < 0xe0) return {1, 0x80, lead & 0x1fU};
  if (lead < 0xf0) return {2, 0x800, lead & 0x0fU};
  if (lead < 0xf5) return {3, 0x10000, lead & 0x07U};
  return {-1, 0, 0};
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Form form = form_of(static_cast<unsigned char>(text.front()));
    if (form.more < 0 || text.size() <= static_cast<std::size_t>(form.more)) return false;
    std::uint32_t point = form.bits;
    for (int i = 1; i <= form.more; ++i) {
      const auto next = static_cast<unsigned char>(text[static_cast<std::size_t>(i)]);
      if ((next & 0xc0) != 0x80) return false;
      point = point << 6 | (next & 0x3fU);
    }
    if (point < form.least || point > 0x10ffff) return false;
    text.remove_prefix(static_cast<std::size_t>(form.more) + 1);
  }
  return true;
}

}  // namespace lockstep::pickle

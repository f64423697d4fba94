#include "base/seconds.h"

#include <cstdio>

namespace lockstep {

std::string seconds(std::uint64_t ns) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ns) / 1e9);
  return text;
}

}  // namespace lockstep

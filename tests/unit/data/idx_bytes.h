// Small IDX and gzip contents for tests.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "unit/data/gzip_bytes.h"

namespace lockstep::data {

inline std::string idx_bytes(std::uint8_t type, const std::vector<std::uint32_t>& sizes,
                             const std::string& values) {
  std::string out = {0, 0, static_cast<char>(type), static_cast<char>(sizes.size())};
  for (const std::uint32_t size : sizes)
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(size >> shift & 255);
  return out + values;
}

}  // namespace lockstep::data

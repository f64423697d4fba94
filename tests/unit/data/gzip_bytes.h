#pragma once

#include <string>

#include "support/deflated.h"

namespace lockstep::data {

inline std::string gzip(const std::string& content) {
  return test::deflated(content, 16 + MAX_WBITS);
}

}  // namespace lockstep::data

// What the tests of the commands that look into runs share.
#pragma once

#include <string>
#include <vector>

namespace lockstep::inspect {

using Texts = std::vector<std::string>;

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace lockstep::inspect

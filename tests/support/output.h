// What tests look for in a program's output.
#pragma once

#include <string>

#include "support/child.h"

namespace lockstep::test {

inline int count(const std::string& text, const std::string& word) {
  int n = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

// The line of the final weights; another text for each failure.
inline std::string hash_in(const Outcome& outcome) {
  const auto at = outcome.out.find("weights sha256 ");
  return at == std::string::npos ? "no hash: " + outcome.err : outcome.out.substr(at, 79);
}

}  // namespace lockstep::test

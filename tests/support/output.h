// What tests look for in a program's output.
#pragma once

#include <cstdlib>
#include <string>

#include "support/child.h"

namespace lockstep::test {

inline int count(const std::string& text, const std::string& word) {
  int n = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

// The number behind the first of these words; -1: there is none.
inline double number_behind(const std::string& text, const std::string& words) {
  const auto at = text.find(words);
  return at == std::string::npos ? -1 : std::strtod(text.c_str() + at + words.size(), nullptr);
}

// How many workers were killed, as the launcher tells it. A fault that does not come to pass tests
// nothing.
inline int killed_in(const Outcome& outcome) {
  return count(outcome.err, "died (SIGKILL)") + count(outcome.err, "ended with SIGKILL");
}

// The line of the final weights; another text for each failure.
inline std::string hash_in(const Outcome& outcome) {
  const auto at = outcome.out.find("weights sha256 ");
  return at == std::string::npos ? "no hash: " + outcome.err : outcome.out.substr(at, 79);
}

}  // namespace lockstep::test

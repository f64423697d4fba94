// What must hold whatever the bytes: else the fuzzer has a finding.
#pragma once

#include <cstdlib>

inline void require(bool holds) {
  if (!holds) std::abort();
}

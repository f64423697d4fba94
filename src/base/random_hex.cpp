#include "base/random_hex.h"

#include <random>

namespace lockstep {

std::string random_hex(int digits) {
  std::random_device device;
  std::string text;
  for (int i = 0; i < digits; ++i) text += "0123456789abcdef"[device() % 16];
  return text;
}

}  // namespace lockstep

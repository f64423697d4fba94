// Names that nobody else has.
#pragma once

#include <string>

namespace lockstep {

// So many hexadecimal digits of the machine's own randomness.
std::string random_hex(int digits);

}  // namespace lockstep

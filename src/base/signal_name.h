// A signal's name, for people. Any thread.
#pragma once

#include <cstring>
#include <string>

namespace lockstep {

// "SIGTERM"; of one without a name "signal 42".
inline std::string signal_name(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name != nullptr ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

}  // namespace lockstep

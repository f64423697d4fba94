#include "coord/exit_status.h"

#include <algorithm>
#include <csignal>

#include "base/signal_name.h"
#include "lockstep/status.h"

namespace lockstep::coord {

std::string describe(ExitStatus status) {
  if (status.is_unknown()) return "cause unknown";
  if (status.signal == 0) return "exit " + std::to_string(status.code);
  return signal_name(status.signal);
}

bool is_from_outside(ExitStatus status) {
  if (status.is_unknown()) return true;
  switch (status.signal) {
    case 0:
    case SIGSEGV:
    case SIGABRT:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGSYS:
      return false;
    default:
      return true;
  }
}

bool is_by(ExitStatus status, std::span<const int> signals) {
  const int signal = status.signal != 0 ? status.signal : status.code - 128;
  return std::find(signals.begin(), signals.end(), signal) != signals.end();
}

bool is_wrong_input(ExitStatus status) {
  return status.code == exit_code(ErrorKind::kUsage) ||
         status.code == exit_code(ErrorKind::kBadData);
}

}  // namespace lockstep::coord

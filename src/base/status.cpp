#include "lockstep/status.h"

namespace lockstep {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return 2;
    case ErrorKind::kBadData:
      return 65;
    case ErrorKind::kUnavailable:
      return 69;
    case ErrorKind::kResumable:
      return 75;
    case ErrorKind::kLeft:
      return 0;
    default:
      return 1;
  }
}

const char* to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kBadData:
      return "bad data";
    case ErrorKind::kUnavailable:
      return "unavailable";
    case ErrorKind::kResumable:
      return "resumable";
    case ErrorKind::kLeft:
      return "left";
    case ErrorKind::kPeerLost:
      return "peer lost";
    case ErrorKind::kTimedOut:
      return "timed out";
    case ErrorKind::kDisk:
      return "disk";
    case ErrorKind::kAborted:
      return "aborted";
    case ErrorKind::kInternal:
      return "internal";
  }
  return "unknown";
}

}  // namespace lockstep

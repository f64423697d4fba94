#include "control/failure.h"

namespace lockstep::control {

const char* to_string(Outcome outcome) {
  switch (outcome) {
    case Outcome::kNoSuchName:
      return "no such name";
    case Outcome::kRefused:
      return "refused";
    case Outcome::kUnreachable:
      return "unreachable";
    case Outcome::kDropped:
      return "dropped";
    case Outcome::kNotLockstep:
      return "not Lockstep";
    case Outcome::kWrongKey:
      return "wrong key";
    case Outcome::kKeyMissing:
      return "key missing";
    case Outcome::kOtherVersion:
      return "other version";
    case Outcome::kItself:
      return "itself";
    case Outcome::kOtherUser:
      return "other user";
    case Outcome::kTooLate:
      return "too late";
    case Outcome::kTooMany:
      return "too many";
    case Outcome::kClosed:
      return "closed";
    case Outcome::kGone:
      return "gone";
    case Outcome::kReset:
      return "reset";
    case Outcome::kBroken:
      return "broken";
    case Outcome::kOverrun:
      return "overrun";
  }
  return "?";
}

bool is_other_launcher(Outcome outcome) {
  switch (outcome) {
    case Outcome::kWrongKey:
    case Outcome::kKeyMissing:
    case Outcome::kOtherVersion:
    case Outcome::kOtherUser:
      return true;
    default:
      return false;
  }
}

}  // namespace lockstep::control

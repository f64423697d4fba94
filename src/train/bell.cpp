#include "train/bell.h"

#include <string>

#include "base/deadline.h"

namespace lockstep::train {

Status wait_bell(Doorbell& bell, const std::function<bool()>& done, const char* what,
                 std::chrono::minutes limit) {
  if (wait_until(bell, done, Deadline::in(limit))) return {};
  return Error{ErrorKind::kTimedOut,
               "waited " + std::to_string(limit.count()) + " minutes for " + what};
}

}  // namespace lockstep::train

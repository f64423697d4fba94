#include "transaction/bell.h"

#include <string>

#include "base/deadline.h"

namespace lockstep::transaction {

Status wait_bell(Doorbell& bell, const std::function<bool()>& done, const char* what,
                 std::chrono::minutes limit) {
  if (wait_until(bell, done, Deadline::in(limit))) return {};
  return Error{ErrorKind::kTimedOut,
               "waited " + std::to_string(limit.count()) + " minutes for " + what};
}

}  // namespace lockstep::transaction

// Lines of the log about who comes to a launcher's port and is not let in: now and then one for
// each kind and address, so that who comes again and again fills no log.
//
// Threads: one at a time. Errors: none.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "base/deadline.h"
#include "control/failure.h"

namespace lockstep::star {

class NotLetIn {
 public:
  // By the listener, before it had said who it is.
  void note(const control::Failure& failure);
  void say(const std::string& kind, const std::string& address, const std::string& what);
  bool may_say(const std::string& kind, const std::string& address);

 private:
  std::map<std::pair<std::string, std::string>, Deadline> silent_about_;  // until then
};

}  // namespace lockstep::star

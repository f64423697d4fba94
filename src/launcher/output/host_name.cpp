#include "launcher/output/host_name.h"

#include <unistd.h>

namespace lockstep::launcher {

std::string host_name() {
  char name[256] = {};
  const bool found = ::gethostname(name, sizeof name - 1) == 0 && name[0] != '\0';
  return found ? name : "localhost";
}

}  // namespace lockstep::launcher

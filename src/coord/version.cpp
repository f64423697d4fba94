#include "coord/version.h"

#include <string>

namespace lockstep::coord {

Error wrong_version(std::uint64_t program, std::uint64_t launcher) {
  return {ErrorKind::kUsage,
          "program and launcher do not fit together: the program was built with version " +
              std::to_string(program) + " of Lockstep's protocol, 'lockstep run' with version " +
              std::to_string(launcher) +
              ". Build the program with the Lockstep of this launcher, or start it with the "
              "launcher of its own"};
}

}  // namespace lockstep::coord

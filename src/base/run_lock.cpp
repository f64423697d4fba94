#include "base/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <ctime>

namespace lockstep {

Result<UniqueFd> lock_run_directory(const std::string& path, Deadline deadline) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd)
    return Error{ErrorKind::kDisk,
                 "cannot open the run directory '" + path + "': " + std::strerror(errno)};
  while (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR)
      return Error{ErrorKind::kDisk,
                   "cannot lock the run directory '" + path + "': " + std::strerror(errno)};
    if (deadline.passed())
      return Error{ErrorKind::kUnavailable,
                   "the run directory '" + path + "' is in use by another run that is still alive"};
    pause(std::chrono::milliseconds(10));
  }
  return fd;
}

}  // namespace lockstep

#include "base/run_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <vector>

#include "base/log.h"

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

void remove_leftovers(const std::string& path) {
  namespace fs = std::filesystem;
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(path, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(".tmp-")) {
      found.push_back(entry->path());
      entry.disable_recursion_pending();
    } else if (entry.depth() >= 1) {
      entry.disable_recursion_pending();
    }
  }
  for (const fs::path& leftover : found) {
    fs::remove_all(leftover, error);
    if (error)
      log_warning("cannot remove the leftover '" + leftover.string() + "': " + error.message());
  }
}

}  // namespace lockstep

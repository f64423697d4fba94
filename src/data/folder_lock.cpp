#include "data/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>

#include "base/flock.h"

namespace lockstep::data {

Result<UniqueFd> lock_folder(const std::string& path, const std::string& what) {
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder)
    return Error{ErrorKind::kDisk, "cannot write '" + path + "': " + std::strerror(errno)};
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) == 0) return folder;
  if (has_no_locks(errno)) return folder;
  if (errno != EWOULDBLOCK)
    return Error{ErrorKind::kDisk, "cannot lock '" + path + "': " + std::strerror(errno)};
  return Error{ErrorKind::kUnavailable, "another " + what + " into '" + path +
                                            "' is under way; try again when it has ended"};
}

}  // namespace lockstep::data

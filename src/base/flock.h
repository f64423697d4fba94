// What flock(2) says of file systems.
#pragma once

#include <cerrno>

namespace lockstep {

// `error`, of a call that has failed: this file system has no such locks, so there is none to wait
// for. NFS says EBADF of a folder, which nobody can open for writing.
constexpr bool has_no_locks(int error) {
  return error == ENOLCK || error == EOPNOTSUPP || error == ENOSYS || error == EBADF;
}

}  // namespace lockstep

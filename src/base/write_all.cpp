#include "base/write_all.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace lockstep {

Status write_all(int fd, std::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ENOSPC;
    if (n <= 0) return Error{ErrorKind::kDisk, std::strerror(errno)};
    data.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

}  // namespace lockstep

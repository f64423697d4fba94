// Put before the C library by LD_PRELOAD: flock(2) of folders as NFS has it. Refused; with
// LOCKSTEP_TEST_LOCKS=local each machine's own, so that two of them have one.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

extern "C" __attribute__((visibility("default"))) int flock(int fd, int operation) noexcept {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISDIR(info.st_mode))
    return static_cast<int>(::syscall(SYS_flock, fd, operation));
  const char* const locks = std::getenv("LOCKSTEP_TEST_LOCKS");
  if (locks != nullptr && std::strcmp(locks, "local") == 0) return 0;
  errno = EBADF;
  return -1;
}

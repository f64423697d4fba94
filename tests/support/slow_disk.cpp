// Preloaded into a launcher (and nothing that it starts): each fsync(2) takes LOCKSTEP_TEST_SYNC_MS
// longer, and while there is a file by the name of LOCKSTEP_TEST_STALL what is written into files
// or synced waits until it is gone. Once there is one by the name of LOCKSTEP_TEST_BROKEN, no sync
// of a *.jsonl comes off.
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <string_view>

namespace {

bool is_launcher() {
  static const bool is = std::strcmp(::program_invocation_short_name, "lockstep") == 0;
  return is;
}

bool is_file(int fd) {
  struct stat info {};
  return ::fstat(fd, &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
}

void wait_ms(long ms) {
  const timespec time{ms / 1000, ms % 1000 * 1'000'000};
  ::nanosleep(&time, nullptr);
}

void wait_for_disk(int fd) {
  const char* const file = std::getenv("LOCKSTEP_TEST_STALL");
  if (file == nullptr || !is_launcher() || !is_file(fd)) return;
  while (::access(file, F_OK) == 0) wait_ms(5);
}

bool is_broken(int fd) {
  const char* const file = std::getenv("LOCKSTEP_TEST_BROKEN");
  if (file == nullptr || !is_launcher() || ::access(file, F_OK) != 0) return false;
  char path[4096] = "";
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const auto size = ::readlink(link.c_str(), path, sizeof path);
  return size > 0 && std::string_view(path, static_cast<std::size_t>(size)).ends_with(".jsonl");
}

void wait_for_sync(int fd) {
  const char* const text = std::getenv("LOCKSTEP_TEST_SYNC_MS");
  if (text != nullptr && is_launcher()) wait_ms(std::atol(text));
  wait_for_disk(fd);
}

int sync(long number, int fd) {
  wait_for_sync(fd);
  if (!is_broken(fd)) return static_cast<int>(::syscall(number, fd));
  errno = EIO;
  return -1;
}

}  // namespace

// The C library's own names of parameters are reserved.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
extern "C" {

ssize_t write(int fd, const void* data, size_t size) {
  wait_for_disk(fd);
  return ::syscall(SYS_write, fd, data, size);
}

int fsync(int fd) { return sync(SYS_fsync, fd); }

int fdatasync(int fd) { return sync(SYS_fdatasync, fd); }
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)

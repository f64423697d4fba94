#include "base/process_setup.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <initializer_list>
#include <iostream>
#include <string>
#include <system_error>

namespace lockstep {
namespace {

void give_threads_room() {
  constexpr std::size_t kLeast = std::size_t{1} << 20;
  pthread_attr_t threads;
  if (::pthread_getattr_default_np(&threads) != 0) return;
  std::size_t size = 0;
  if (::pthread_attr_getstacksize(&threads, &size) == 0 && size < kLeast &&
      ::pthread_attr_setstacksize(&threads, kLeast) == 0)
    ::pthread_setattr_default_np(&threads);
  ::pthread_attr_destroy(&threads);
}

}  // namespace

void prepare_process() {
  // In this order each gets the lowest free number, its own. Without /dev/null nothing is better.
  ::signal(SIGXFSZ, SIG_IGN);
  give_threads_room();
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) < 0) return;
}

bool is_first_main() {
  static const bool first = [] {
    const char* const later = std::getenv(kLaterMainVariable);
    const bool none = later == nullptr || *later == '\0';
    ::unsetenv(kLaterMainVariable);
    return none;
  }();
  return first;
}

void flush_outputs() {
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
}

Status write_output(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
    return {};
  return Error{ErrorKind::kDisk,
               std::string("cannot write to standard output: ") + std::strerror(errno)};
}

Status check_working_directory() {
  std::error_code error;
  (void)std::filesystem::current_path(error);
  if (!error) return {};
  return Error{ErrorKind::kUsage, "the working directory cannot be found (" + error.message() +
                                      "); was it removed? Go to one that is there"};
}

}  // namespace lockstep

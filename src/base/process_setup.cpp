#include "base/process_setup.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <initializer_list>
#include <iostream>

namespace lockstep {

void prepare_process() {
  // In this order each gets the lowest free number, its own. Without /dev/null nothing is better.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) < 0) return;
  ::signal(SIGXFSZ, SIG_IGN);
}

void flush_outputs() {
  std::cout.flush();
  std::clog.flush();
  std::fflush(nullptr);
}

}  // namespace lockstep

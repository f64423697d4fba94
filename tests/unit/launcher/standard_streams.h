// Standard output and error of a test: somewhere else for a while.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "base/unique_fd.h"

namespace lockstep::launcher {

// For its life standard error, or output, is this descriptor.
class StandardStream {
 public:
  explicit StandardStream(int fd, int standard = STDERR_FILENO)
      : standard_(standard), before_(::fcntl(standard, F_DUPFD_CLOEXEC, 3)) {
    ::dup2(fd, standard_);
  }
  ~StandardStream() { ::dup2(before_.get(), standard_); }
  StandardStream(const StandardStream&) = delete;
  StandardStream& operator=(const StandardStream&) = delete;

 private:
  int standard_;
  UniqueFd before_;
};

struct Ends {
  UniqueFd read, write;
};
inline Ends make_pipe() {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}
inline Ends make_socket() {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}
// A terminal; `read` is its other side.
inline Ends make_terminal() {
  const int side = ::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK);
  EXPECT_EQ(::grantpt(side), 0);
  EXPECT_EQ(::unlockpt(side), 0);
  char name[64];
  EXPECT_EQ(::ptsname_r(side, name, sizeof name), 0);
  return {UniqueFd(side), UniqueFd(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC))};
}

inline std::string read_all(const UniqueFd& fd) {
  std::string text;
  char buffer[65536];
  for (ssize_t n; (n = ::read(fd.get(), buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(n));
  return text;
}

// Ends the process where something blocks; a test that hangs tells nothing.
class Alarm {
 public:
  explicit Alarm(unsigned seconds) { ::alarm(seconds); }
  ~Alarm() { ::alarm(0); }
};

}  // namespace lockstep::launcher

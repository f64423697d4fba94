#include "launcher/console.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

namespace lockstep::launcher {

void Console::write(Target target, std::string_view lines) {
  waiting_[target] += lines;
  flush(target);
}

bool Console::flush() {
  const bool out = flush(kOut), err = flush(kErr);
  return out && err;
}

bool Console::flush(Target target) {
  std::string& text = waiting_[target];
  const int fd = target == kOut ? STDOUT_FILENO : STDERR_FILENO;
  std::size_t done = 0;
  while (done < text.size()) {
    // A pipe that polls writable takes PIPE_BUF bytes without blocking; O_NONBLOCK would change the
    // user's terminal.
    pollfd entry{fd, POLLOUT, 0};
    if (::poll(&entry, 1, 0) <= 0) break;
    const ssize_t n =
        ::write(fd, text.data() + done, std::min<std::size_t>(text.size() - done, PIPE_BUF));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {  // nobody reads any more
      done = text.size();
      break;
    }
    done += static_cast<std::size_t>(n);
  }
  text.erase(0, done);
  return text.empty();
}

void Console::finish(Deadline deadline) {
  while (!flush() && !deadline.passed()) {
    pollfd entries[2] = {{waiting_[0].empty() ? -1 : STDOUT_FILENO, POLLOUT, 0},
                         {waiting_[1].empty() ? -1 : STDERR_FILENO, POLLOUT, 0}};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
    ::poll(entries, 2, static_cast<int>(left));
  }
}

}  // namespace lockstep::launcher

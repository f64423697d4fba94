#include "launcher/console.h"

#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

namespace lockstep::launcher {

void Console::write(Target target, std::string_view lines) {
  if (waiting_[target].size() + lines.size() > kMostWaiting) {
    lost_[target] += static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n'));
    return;
  }
  tell_lost(target);
  waiting_[target] += lines;
  flush(target);
}

// In the place of the lines themselves.
void Console::tell_lost(Target target) {
  if (lost_[target] == 0) return;
  waiting_[target] += "lockstep: warning: " + std::to_string(std::exchange(lost_[target], 0)) +
                      " lines are missing here: nobody read them in time\n";
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
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {  // nobody reads any more
      done = text.size();
      break;
    }
    done += static_cast<std::size_t>(n);
  }
  text.erase(0, done);
  if (text.empty() && lost_[target] != 0) {
    tell_lost(target);
    return flush(target);
  }
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

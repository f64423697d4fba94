#include "launcher/console.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

namespace lockstep::launcher {
namespace {

// Lines as far as they fit a write that a pipe takes whole or not at all; of a longer line a part.
std::string_view next_piece(std::string_view text) {
  if (text.size() <= PIPE_BUF) return text;
  const std::size_t end = text.rfind('\n', PIPE_BUF - 1);
  return text.substr(0, end == std::string_view::npos ? PIPE_BUF : end + 1);
}

}  // namespace

Console::Console(Loop& loop) : loop_(loop), streams_{open(STDOUT_FILENO), open(STDERR_FILENO)} {}

Console::~Console() {
  for (Stream& stream : streams_)
    if (stream.watched) loop_.remove(stream.number());
}

Console::Stream Console::open(int fd) {
  Stream stream;
  stream.fd = fd;
  struct stat info {};
  if (::fstat(fd, &info) != 0) return stream;
  stream.is_socket = S_ISSOCK(info.st_mode);
  if (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode))
    stream.own.reset(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(),
                            O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  return stream;
}

ssize_t Console::Stream::put(std::string_view piece) const {
  if (own) return ::write(own.get(), piece.data(), piece.size());
  if (is_socket) return ::send(fd, piece.data(), piece.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  pollfd entry{fd, POLLOUT, 0};  // a file, which has room at once; or the best that can be done
  if (::poll(&entry, 1, 0) > 0) return ::write(fd, piece.data(), piece.size());
  errno = EAGAIN;
  return -1;
}

void Console::write(Target target, std::string_view lines) {
  Stream& stream = streams_[target];
  if (stream.waiting.size() + lines.size() > kMostWaiting) {
    stream.lost += static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n'));
    return;
  }
  tell_lost(stream);
  stream.waiting += lines;
  flush(stream);
}

// In the place of the lines themselves.
void Console::tell_lost(Stream& stream) {
  if (stream.lost == 0) return;
  stream.waiting += "lockstep: warning: " + std::to_string(std::exchange(stream.lost, 0)) +
                    " lines are missing here: nobody read them in time\n";
}

bool Console::flush() {
  const bool out = flush(streams_[kOut]), err = flush(streams_[kErr]);
  return out && err;
}

bool Console::flush(Stream& stream) {
  std::string& text = stream.waiting;
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = stream.put(next_piece(std::string_view(text).substr(done)));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {  // nobody reads any more
      done = text.size();
      break;
    }
    done += static_cast<std::size_t>(n);
  }
  text.erase(0, done);
  if (text.empty() && stream.lost != 0) {
    tell_lost(stream);
    return flush(stream);
  }
  watch(stream);
  return text.empty();
}

void Console::watch(Stream& stream) {
  const bool wanted = !stream.waiting.empty();
  if (wanted == stream.watched) return;
  if (!wanted) loop_.remove(stream.number());
  stream.watched =
      wanted && loop_
                    .add(
                        stream.number(), [this, &stream] { flush(stream); }, Loop::kWritable)
                    .ok();
}

bool Console::waits_unwatched() const {
  return std::any_of(streams_.begin(), streams_.end(), [](const Stream& stream) {
    return !stream.waiting.empty() && !stream.watched;
  });
}

void Console::finish(Deadline deadline) {
  while (!flush() && !deadline.passed()) {
    pollfd entries[2];
    for (std::size_t i = 0; i < 2; ++i)
      entries[i] = {streams_[i].waiting.empty() ? -1 : streams_[i].number(), POLLOUT, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
    ::poll(entries, 2, static_cast<int>(left));
  }
}

}  // namespace lockstep::launcher

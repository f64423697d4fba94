#include "launcher/output/console.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/kcmp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include "base/terminal.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

const std::string kNobodyReads = "nobody reads standard output any more; the run goes on";
const std::string kCannotWrite = "standard output cannot be written: ";

// Of a file two descriptors may each have a place of its own to write at.
bool one_open_file(int a, int b) {
  const long self = ::getpid();
  return ::syscall(SYS_kcmp, self, self, KCMP_FILE, static_cast<long>(a), static_cast<long>(b)) ==
         0;
}

bool one_stream(int a, int b) {
  struct stat first {
  }, second{};
  if (::fstat(a, &first) != 0 || ::fstat(b, &second) != 0 || first.st_dev != second.st_dev ||
      first.st_ino != second.st_ino)
    return false;
  return S_ISFIFO(first.st_mode) || S_ISCHR(first.st_mode) || S_ISSOCK(first.st_mode) ||
         one_open_file(a, b);
}

}  // namespace

Console::Console(Loop& loop)
    : loop_(loop),
      disk_(loop),
      streams_{open(kOut), open(kErr)},
      one_(one_stream(STDOUT_FILENO, STDERR_FILENO)) {}

Console::~Console() {
  settle();  // the last words of all: what finish() left, what was said after it
  for (Stream& stream : streams_)
    if (stream.watched) loop_.remove(stream.number());
}

void Console::move_to(int out, int err) {
  for (Stream& stream : streams_)
    if (std::exchange(stream.watched, false)) loop_.remove(stream.number());
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  for (std::size_t i = 0; i < 2; ++i) {
    Stream old = std::exchange(streams_[i], open(static_cast<Target>(i)));
    streams_[i].waiting = std::move(old.waiting);
    streams_[i].lost = old.lost;
    streams_[i].lost_bytes = old.lost_bytes;
  }
  one_ = one_stream(STDOUT_FILENO, STDERR_FILENO);
  bar_.clear();
  if (one_) streams_[kOut].waiting += std::exchange(streams_[kErr].waiting, {});
  flush();
}

Console::Stream Console::open(Target target) {
  const int fd = target == kOut ? STDOUT_FILENO : STDERR_FILENO;
  Stream stream;
  stream.fd = fd;
  struct stat info {};
  if (::fstat(fd, &info) != 0) return stream;
  stream.is_pipe = S_ISFIFO(info.st_mode);
  stream.is_socket = S_ISSOCK(info.st_mode);
  stream.is_terminal = terminal_columns(fd) > 0;
  if (S_ISFIFO(info.st_mode) || S_ISCHR(info.st_mode))
    stream.own.reset(::open(("/proc/self/fd/" + std::to_string(fd)).c_str(),
                            O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (UniqueFd copy(S_ISREG(info.st_mode) ? ::fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1); copy)
    stream.file =
        std::make_shared<FileWriter>(std::move(copy), disk_, [this, target](const Status& status) {
          if (!status.ok()) tell_broken(streams_[target], kCannotWrite + status.error().message);
          flush(streams_[target]);
        });
  return stream;
}

// Lines as far as they fit a write that a pipe takes whole or not at all. A longer line goes in one
// write too, and comes out whole as far as there is room, unless that could block.
std::string_view Console::Stream::next_piece(std::size_t from) const {
  constexpr std::size_t kMost = std::size_t{1} << 20;  // more than any pipe takes at once
  const std::string_view text = std::string_view(waiting).substr(from, kMost);
  if (text.size() <= PIPE_BUF) return text;
  std::size_t end = text.rfind('\n', PIPE_BUF - 1);
  if (end == std::string_view::npos && (own || is_socket)) end = text.find('\n', PIPE_BUF - 1);
  const bool longer = end == std::string_view::npos && (own || is_socket);
  return text.substr(0, longer ? kMost : end == std::string_view::npos ? PIPE_BUF : end + 1);
}

ssize_t Console::Stream::put(std::string_view piece) const {
  if (own) return ::write(own.get(), piece.data(), piece.size());
  if (is_socket) return ::send(fd, piece.data(), piece.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  pollfd entry{fd, POLLOUT, 0};  // a file, which has room at once; or the best that can be done
  if (::poll(&entry, 1, 0) > 0) return ::write(fd, piece.data(), piece.size());
  errno = EAGAIN;
  return -1;
}

std::pair<std::size_t, int> Console::Stream::progress() const {
  int unread = -1;  // not known of files
  ::ioctl(number(), is_pipe ? FIONREAD : TIOCOUTQ, &unread);
  return {left(), unread};
}

void Console::write(Target target, std::string_view lines) {
  Stream& stream = of(target);
  // What is taken is taken whole, however long the line: a console that is full holds tees back.
  if (stream.waiting.size() > kMostWaiting) {
    stream.lost_bytes += lines.size();
    stream.lost += static_cast<std::size_t>(std::count(lines.begin(), lines.end(), '\n'));
    return;
  }
  tell_lost(stream);
  const bool above_bar = &stream == &of(kErr);
  if (!above_bar && !bar_.empty()) bar("");  // through a pipe they may come to that terminal, too
  if (bar_.empty())
    stream.waiting += lines;
  else
    stream.waiting.append(kEraseLine).append(lines).append(bar_);
  flush(stream);
}

std::size_t Console::columns() const {
  const Stream& stream = of(kErr);
  return stream.is_terminal ? terminal_columns(stream.fd) : 0;
}

// The cursor goes back to the line's start: what a worker writes by itself covers the bar.
void Console::bar(const std::string& text) {
  Stream& stream = of(kErr);
  if (!stream.is_terminal || (!stream.waiting.empty() && !text.empty())) return;
  bar_ = text.empty() ? "" : text + "\r";
  stream.waiting.append(kEraseLine).append(bar_);
  flush(stream);
}

// In the place of the lines themselves.
void Console::tell_lost(Stream& stream) {
  if (stream.lost == 0) return;
  stream.lost_bytes = 0;
  stream.waiting += "lockstep: warning: " + std::to_string(std::exchange(stream.lost, 0)) +
                    " lines are missing here: nobody read them in time\n";
}

// What a disk does not take is a loss; a reader that has gone may have wanted no more.
void Console::tell_broken(Stream& stream, const std::string& what) {
  if (one_ || &stream != &streams_[kOut] || std::exchange(stream.broken, true)) return;
  write(kErr, "lockstep: warning: " + what + "; lines are missing there\n");
}

void Console::tell_late(Stream& stream) {
  if (!stream.file || !stream.file->is_late()) return;
  const std::string name = &stream == &streams_[kOut] ? "standard output" : "standard error";
  write(kErr, "lockstep: warning: the disk of " + name +
                  " has taken nothing for 5 s; its lines wait, and the run goes on\n");
}

bool Console::flush() {
  const bool out = flush(streams_[kOut]), err = flush(streams_[kErr]);
  return out && err;
}

bool Console::flush(Stream& stream) {
  if (stream.file) return flush_file(stream);
  std::string& text = stream.waiting;
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = stream.put(stream.next_piece(done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0) {
      tell_broken(stream, errno == EPIPE ? kNobodyReads : kCannotWrite + std::strerror(errno));
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

bool Console::flush_file(Stream& stream) {
  if (!stream.file->full()) {
    tell_lost(stream);
    stream.file->write(std::exchange(stream.waiting, {}));
  }
  return stream.left() == 0;
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

void Console::look() {
  pollfd entries[2];
  for (std::size_t i = 0; i < 2; ++i) entries[i] = {streams_[i].number(), POLLOUT, 0};
  ::poll(entries, 2, 0);
  for (std::size_t i = 0; i < 2; ++i) {
    Stream& stream = streams_[i];
    stream.has_room = entries[i].revents != 0;
    tell_late(stream);
    const bool gone = (entries[i].revents & (POLLERR | POLLHUP)) != 0;
    if (gone && (stream.is_pipe || stream.is_socket)) tell_broken(stream, kNobodyReads);
  }
}

bool Console::waits_unwatched() const {
  return std::any_of(streams_.begin(), streams_.end(), [](const Stream& stream) {
    return !stream.waiting.empty() && !stream.watched && !stream.file;
  });
}

bool Console::disk_is_busy() const {
  return std::ranges::any_of(
      streams_, [](const Stream& stream) { return stream.file && stream.file->busy(); });
}

void Console::settle() {
  const Deadline deadline = Deadline::in(1s);
  while (flush(), disk_is_busy())
    if (!disk_.finish(deadline)) return;
}

bool Console::write_down_to(std::size_t most, std::chrono::milliseconds patience,
                            const std::function<bool()>& enough) {
  Deadline deadline = Deadline::in(patience);
  auto seen = std::pair{streams_[0].progress(), streams_[1].progress()};
  while (flush(), waiting() > most) {
    const bool disk = disk_is_busy();  // that one is waited for
    if ((deadline.passed() && !disk) || enough()) return false;
    pollfd entries[2];
    for (std::size_t i = 0; i < 2; ++i)
      entries[i] = {streams_[i].waiting.empty() || streams_[i].file ? -1 : streams_[i].number(),
                    POLLOUT, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left());
    const auto time = std::min<std::chrono::milliseconds>(disk ? 10ms : left, 100ms);
    if (disk) (void)disk_.finish(Deadline::in(time));
    ::poll(entries, 2, disk ? 0 : static_cast<int>(time.count()));
    auto now = std::pair{streams_[0].progress(), streams_[1].progress()};
    if (std::exchange(seen, now) != now) deadline = Deadline::in(patience);
  }
  return true;
}

bool Console::make_room(std::chrono::milliseconds patience, const std::function<bool()>& enough) {
  return write_down_to(kLimit, patience, enough);
}

Console::Missing Console::finish(std::chrono::milliseconds patience,
                                 const std::function<bool()>& enough) {
  write_down_to(0, patience, enough);
  Missing missing;
  for (Stream& stream : streams_) {
    missing.lines += stream.lost + static_cast<std::size_t>(std::count(stream.waiting.begin(),
                                                                       stream.waiting.end(), '\n'));
    missing.bytes += stream.lost_bytes + stream.left();
    stream.lost = stream.lost_bytes = 0;
    stream.waiting.clear();
    watch(stream);
  }
  return missing;
}

}  // namespace lockstep::launcher

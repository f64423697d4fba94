#include "links/stream.h"

#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/errors.h"

namespace lockstep::links {
namespace {

constexpr std::size_t kMostPieces = 32;           // of one write
constexpr std::size_t kMostReadATurn = 2U << 20;  // so that no pair holds up the others

}  // namespace

Stream::Stream(Loop& loop, UniqueFd socket, std::string name, const Limits& limits, Owner& owner)
    : loop_(loop),
      socket_(std::move(socket)),
      name_(std::move(name)),
      limits_(limits),
      owner_(&owner) {}

std::shared_ptr<Stream> Stream::start(Loop& loop, UniqueFd socket, std::string name,
                                      const Limits& limits, Owner& owner) {
  std::shared_ptr<Stream> made(new Stream(loop, std::move(socket), std::move(name), limits, owner));
  made->watch(false);
  return made;
}

void Stream::watch(bool writes) {
  loop_.remove(socket_.get());
  const auto call = [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_ready();
  };
  // Where the loop has no place for it, silence ends it.
  (void)loop_.add(socket_.get(), call, writes ? Loop::kBoth : Loop::kReadable).ok();
  writes_ = writes;
}

void Stream::close() {
  owner_ = nullptr;
  if (!socket_) return;
  loop_.remove(socket_.get());
  socket_.reset();
}

// What is asked for in one turn of the loop goes out in one write of the next.
void Stream::send(std::string_view header, std::span<const std::byte> body) {
  if (owner_ == nullptr) return;
  out_.add(header, body);
  if (!writes_) watch(true);
}

void Stream::send_copy(std::string_view header, std::string body) {
  if (owner_ == nullptr) return;
  out_.add(header, std::move(body));
  if (!writes_) watch(true);
}

void Stream::on_ready() {
  const std::size_t before = out_.unsent();
  write();
  if (owner_ != nullptr && out_.unsent() < before && out_.unsent() < kEnoughUnsent / 2)
    owner_->room();
  if (owner_ != nullptr) read();
}

void Stream::write() {
  while (out_.unsent() > 0) {
    std::array<iovec, kMostPieces> pieces;
    msghdr message{};
    message.msg_iov = pieces.data();
    message.msg_iovlen = out_.gather(pieces);
    const ssize_t count = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == ENOBUFS)) return;
    // What it had said before it broke is still there to be read, and so is why it broke.
    if (count < 0) return watch(false);
    out_.sent(static_cast<std::size_t>(count));
    said_ = Deadline::Clock::now();
  }
  if (writes_) watch(false);
}

void Stream::read() {
  const auto self = shared_from_this();
  for (std::size_t most = kMostReadATurn; most > 0 && owner_ != nullptr;) {
    const auto room = in_.room();
    const std::size_t asked = room[0].iov_len + room[1].iov_len;
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(room.data());
    message.msg_iovlen = room.size();
    const ssize_t count = ::recvmsg(socket_.get(), &message, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count == 0) return fail(Cause::kGone, "its link has ended, or closed the connection");
    if (count < 0) return fail_of(errno);
    heard_ = Deadline::Clock::now();
    const auto bytes = static_cast<std::size_t>(count);
    const Status taken = in_.take(bytes, *this);
    if (owner_ == nullptr) return;
    if (!taken.ok()) return fail(Cause::kBroken, taken.error().message);
    if (bytes < asked) return;  // that was all
    most -= std::min(most, bytes);
  }
}

Result<std::optional<std::span<std::byte>>> Stream::landing(std::string_view header,
                                                            std::size_t bytes) {
  auto place = owner_->landing(header, bytes);
  if (owner_ == nullptr) return bad_data("closed");
  return place;
}

Status Stream::landed(std::string_view header) {
  Status status = owner_->landed(header);
  if (owner_ == nullptr) return bad_data("closed");
  return status;
}

void Stream::tick() {
  if (owner_ == nullptr) return;
  const auto self = shared_from_this();
  auto now = Deadline::Clock::now();
  // Whoever was paused itself finds here what others have said meanwhile.
  if (now - heard_ >= limits_.silence) read();
  if (owner_ == nullptr) return;
  if (now - heard_ >= limits_.silence)
    return fail(Cause::kSilent,
                "nothing has come for " + std::to_string(limits_.silence.count()) + " ms");
  if (now - said_ < limits_.ping || out_.unsent() > 0) return;
  out_.add_ping();
  write();
  if (owner_ != nullptr && out_.unsent() > 0 && !writes_) watch(true);
}

void Stream::fail(Cause cause, const std::string& what) {
  Owner* owner = std::exchange(owner_, nullptr);
  const std::string name = name_;
  close();
  if (owner != nullptr) owner->ended({cause, name + ": " + what});
}

void Stream::fail_of(int error) {
  const bool is_reset = error == ECONNRESET || error == EPIPE;
  fail(is_reset ? Cause::kReset : Cause::kUnreachable, std::strerror(error));
}

}  // namespace lockstep::links

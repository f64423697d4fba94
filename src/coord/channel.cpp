#include "coord/channel.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>

namespace lockstep::coord {
namespace {

Error lost(const char* call) {
  return {ErrorKind::kUnavailable,
          std::string("the other side is gone: ") + call + ": " + std::strerror(errno)};
}

// False: the deadline passed.
bool wait_for(int socket, short events, Deadline deadline) {
  pollfd entry{socket, events, 0};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left()).count();
    const int ready = ::poll(&entry, 1, static_cast<int>(std::min<std::int64_t>(left, 60'000)));
    if (ready > 0) return true;
    if (deadline.passed()) return false;
  }
}

// Room for the descriptors' control message, aligned as cmsghdr wants it.
struct alignas(cmsghdr) ControlBuffer {
  char bytes[CMSG_SPACE(kMaxDescriptors * sizeof(int))];
};

void attach(msghdr& header, ControlBuffer& buffer, std::span<const int> descriptors) {
  if (descriptors.empty()) return;
  header.msg_control = buffer.bytes;
  header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
  cmsghdr* control = CMSG_FIRSTHDR(&header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(descriptors.size_bytes());
  std::memcpy(CMSG_DATA(control), descriptors.data(), descriptors.size_bytes());
}

std::vector<UniqueFd> detach(msghdr& header) {
  std::vector<UniqueFd> descriptors;
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr;
       control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(control) + i * sizeof(int), sizeof fd);
      descriptors.emplace_back(fd);
    }
  }
  return descriptors;
}

}  // namespace

void make_room(int socket) {
  const int room = static_cast<int>(kMaxMessageBytes);
  ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
}

Result<std::pair<UniqueFd, UniqueFd>> make_channel() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return Error{ErrorKind::kUnavailable, std::string("socketpair: ") + std::strerror(errno)};
  for (const int end : ends) make_room(end);
  return std::pair{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Status send(int socket, const Message& message, Deadline deadline,
            std::span<const int> descriptors) {
  LOCKSTEP_ASSIGN(std::string bytes, encode(message));
  iovec part{bytes.data(), bytes.size()};
  ControlBuffer buffer{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  attach(header, buffer, descriptors);
  while (::sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    if (errno == EMSGSIZE)
      return Error{ErrorKind::kUsage,
                   "a message of " + std::to_string(bytes.size()) +
                       " bytes does not fit the socket; raise net.core.wmem_max"};
    if (errno != EAGAIN) return lost("sendmsg");
    if (!wait_for(socket, POLLOUT, deadline))
      return Error{ErrorKind::kTimedOut, "the other side takes no messages"};
  }
  return {};
}

Result<Received> receive(int socket, Deadline deadline) {
  ssize_t size = 0;
  while ((size = ::recv(socket, nullptr, 0, MSG_PEEK | MSG_TRUNC | MSG_DONTWAIT)) < 0) {
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return lost("recv");
    if (!wait_for(socket, POLLIN, deadline))
      return Error{ErrorKind::kTimedOut, "no message came in time"};
  }
  std::string bytes(static_cast<std::size_t>(size), '\0');
  iovec part{bytes.data(), bytes.size()};
  ControlBuffer buffer{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = buffer.bytes;
  header.msg_controllen = sizeof buffer.bytes;
  ssize_t got = 0;
  while ((got = ::recvmsg(socket, &header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  if (got < 0) return lost("recvmsg");
  std::vector<UniqueFd> descriptors = detach(header);
  if (got == 0) return Error{ErrorKind::kUnavailable, "the other side closed the connection"};
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    return Error{ErrorKind::kBadData,
                 "a message came with more descriptors or bytes than it may have"};
  LOCKSTEP_ASSIGN(Message message,
                  decode(std::as_bytes(std::span(bytes).first(static_cast<std::size_t>(got)))));
  return Received{std::move(message), std::move(descriptors)};
}

}  // namespace lockstep::coord

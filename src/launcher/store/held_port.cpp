#include "launcher/store/held_port.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/port.h"
#include "base/processes.h"

namespace lockstep::launcher {
namespace {

// An IPv6 socket holds the port for IPv4 as well; without IPv6 on the host, an IPv4 one.
UniqueFd bound_socket(int family, int port) {
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fd;
  const int on = 1, off = 0;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_storage address{};
  if (family == AF_INET6) {
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    auto* six = reinterpret_cast<sockaddr_in6*>(&address);
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(static_cast<std::uint16_t>(port));
  } else {
    auto* four = reinterpret_cast<sockaddr_in*>(&address);
    four->sin_family = AF_INET;
    four->sin_port = htons(static_cast<std::uint16_t>(port));
  }
  const socklen_t size = family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0) fd.reset();
  return fd;
}

}  // namespace

const char* const kOtherPort = "; name another port, or none to get a free one";

Result<HeldPort> HeldPort::hold(int port) {
  UniqueFd fd = bound_socket(AF_INET6, port);
  if (!fd && errno != EADDRINUSE) fd = bound_socket(AF_INET, port);
  const int number_of_error = errno;
  if (!fd)
    return Error{ErrorKind::kUnavailable, "cannot hold port " + std::to_string(port) +
                                              " as MASTER_PORT: " + std::strerror(number_of_error) +
                                              (port != 0 ? port_holder(port) + kOtherPort : "")};
  const int number = port_of(fd.get());
  return HeldPort(std::move(fd), number);
}

}  // namespace lockstep::launcher

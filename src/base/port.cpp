#include "base/port.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>

namespace lockstep {
namespace {

// "" : it is of another family.
std::string address_of(int socket, int (*ask)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> text{};
  auto* any = reinterpret_cast<sockaddr*>(&address);
  if (ask(socket, any, &size) != 0 ||
      ::getnameinfo(any, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  const std::string found = text.data(), four = "::ffff:";
  const bool is_four = found.starts_with(four) && found.find('.') != std::string::npos;
  return is_four ? found.substr(four.size()) : found;
}

}  // namespace

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

// Within a machine both ends have one address, unless somebody has bound the one to another.
std::string comes_from(int socket) {
  std::string remote = address_of(socket, ::getpeername);
  if (remote.starts_with("127.") || remote == "::1") return "";
  return remote == address_of(socket, ::getsockname) ? "" : remote;
}

}  // namespace lockstep

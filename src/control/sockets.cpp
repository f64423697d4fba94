#include "control/sockets.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <fstream>
#include <set>
#include <string>

namespace lockstep::control {
namespace {

constexpr int kType = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

// The first port that any user may have.
int first_free_to_all() {
  int port = 1024;
  std::ifstream("/proc/sys/net/ipv4/ip_unprivileged_port_start") >> port;
  return port;
}

// `port`: 0 within the machine.
Error cannot_listen(const std::string& where, int port, int code) {
  std::string why = std::strerror(code);
  if (code == EACCES || code == EPERM) {
    if (const int first = first_free_to_all(); port != 0 && port < first)
      why += ": ports below " + std::to_string(first) +
             " are the system's (net.ipv4.ip_unprivileged_port_start)";
    return {ErrorKind::kUsage, "cannot listen on " + where + ": " + why};
  }
  if (code == EADDRINUSE) why = "the port is taken by another program";
  if (code == EADDRNOTAVAIL) why = "this machine has no such address";
  return {ErrorKind::kUnavailable, "cannot listen on " + where + ": " + why};
}

struct MachineAddress {
  sockaddr_un address{};
  socklen_t size = 0;
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&address); }
};

std::string name_on_this_machine(int port) {
  return "lockstep-control-" + std::to_string(::geteuid()) + "-" + std::to_string(port);
}

// The name of an abstract socket begins with a zero.
MachineAddress address_of_name(const std::string& name) {
  MachineAddress made;
  made.address.sun_family = AF_UNIX;
  const std::size_t size = std::min(name.size(), sizeof made.address.sun_path - 1);
  std::copy_n(name.begin(), size, made.address.sun_path + 1);
  made.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + size);
  return made;
}

// `code`: the errno of a failure.
UniqueFd bound(int family, const sockaddr* address, socklen_t size, int& code) {
  UniqueFd socket(::socket(family, kType, 0));
  const int on = 1, off = 0;
  if (family != AF_UNIX) ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (family == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (!socket || ::bind(socket.get(), address, size) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0) {
    code = errno;
    socket.reset();
  }
  return socket;
}

Result<UniqueFd> bound_or_error(int family, const sockaddr* address, socklen_t size, int port,
                                const std::string& where) {
  int code = 0;
  UniqueFd socket = bound(family, address, size, code);
  if (!socket) return cannot_listen(where, port, code);
  return socket;
}

}  // namespace

Result<UniqueFd> listen_everywhere(int port) {
  const std::string where = "port " + std::to_string(port);
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(static_cast<std::uint16_t>(port));
  six.sin6_addr = in6addr_any;
  int code = 0;
  UniqueFd socket = bound(AF_INET6, reinterpret_cast<const sockaddr*>(&six), sizeof six, code);
  if (socket) return socket;
  if (code != EAFNOSUPPORT && code != EADDRNOTAVAIL) return cannot_listen(where, port, code);
  sockaddr_in four{};  // a machine without IPv6
  four.sin_family = AF_INET;
  four.sin_port = six.sin6_port;
  return bound_or_error(AF_INET, reinterpret_cast<const sockaddr*>(&four), sizeof four, port,
                        where);
}

Result<UniqueFd> listen_at(const Address& address) {
  return bound_or_error(address.family(), address.data(), address.size(), address.port(),
                        address.text());
}

int begin_connect(int socket, const Address& to, const std::optional<Address>& from) {
  if (from && ::bind(socket, from->data(), from->size()) != 0) return errno;
  const bool begun = ::connect(socket, to.data(), to.size()) == 0 || errno == EINPROGRESS;
  return begun ? 0 : errno;
}

void take_small_segments(int socket) {
  ::setsockopt(socket, IPPROTO_TCP, TCP_MAXSEG, &kSmallSegment, sizeof kSmallSegment);
}

bool send_whole(int socket, std::string_view bytes) {
  return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

bool is_unacknowledged(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  return ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 && info.tcpi_unacked > 0;
}

int error_of_connect(int socket) {
  int code = 0;
  socklen_t size = sizeof code;
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &code, &size);
  if (code != 0) return code;
  const auto local = Address::local_of(socket), remote = Address::remote_of(socket);
  return local && remote && *local == *remote ? ECONNREFUSED : 0;
}

Outcome outcome_of_connect(int error) {
  if (error == ECONNREFUSED) return Outcome::kRefused;
  if (error == ECONNRESET) return Outcome::kReset;
  return error == ETIMEDOUT ? Outcome::kDropped : Outcome::kUnreachable;
}

Result<UniqueFd> listen_by_name(const std::string& name) {
  const MachineAddress address = address_of_name(name);
  return bound_or_error(AF_UNIX, address.data(), address.size, 0, "'" + name + "' of this machine");
}

Result<UniqueFd> connect_by_name(const std::string& name) {
  UniqueFd socket(::socket(AF_UNIX, kType, 0));
  const MachineAddress address = address_of_name(name);
  if (!socket || ::connect(socket.get(), address.data(), address.size) != 0)
    return Error{ErrorKind::kUnavailable, std::strerror(errno)};
  return socket;
}

Result<UniqueFd> listen_on_this_machine(int port) {
  const MachineAddress address = address_of_name(name_on_this_machine(port));
  return bound_or_error(AF_UNIX, address.data(), address.size, 0,
                        "port " + std::to_string(port) + " of this machine");
}

Result<UniqueFd> connect_on_this_machine(int port) {
  auto socket = connect_by_name(name_on_this_machine(port));
  if (socket.ok()) return socket;
  return Error{ErrorKind::kUnavailable, "no launcher of this user is on this machine at port " +
                                            std::to_string(port) + ": " + socket.error().message};
}

// The last word of a line is the name; an abstract one has '@' in front.
std::vector<std::string> names_on_this_machine(const std::string& begin) {
  std::ifstream table("/proc/net/unix");
  std::set<std::string> found;  // connected sockets have the listener's
  for (std::string line; std::getline(table, line);) {
    const std::size_t at = line.rfind(" @" + begin);
    if (at != std::string::npos) found.insert(line.substr(at + 2));
  }
  return {found.begin(), found.end()};
}

bool is_of_this_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == ::geteuid() || peer.uid == 0);
}

}  // namespace lockstep::control

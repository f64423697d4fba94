#include "control/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/endpoint.h"
#include "base/unique_fd.h"

namespace lockstep::control {
namespace {

template <class Sockaddr>
const Sockaddr& as(const sockaddr_storage& storage) {
  return reinterpret_cast<const Sockaddr&>(storage);
}

std::optional<Address> name_of(int socket, int (*ask)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (ask(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return std::nullopt;
  return Address::of(reinterpret_cast<const sockaddr*>(&storage), size);
}

}  // namespace

std::optional<Address> Address::of(const sockaddr* address, socklen_t size) {
  Address result;
  if (address == nullptr || size < sizeof(sockaddr_in) || size > sizeof result.storage_)
    return std::nullopt;
  std::memcpy(&result.storage_, address, size);
  if (result.family() == AF_INET) return result;
  if (result.family() != AF_INET6 || size < sizeof(sockaddr_in6)) return std::nullopt;
  const sockaddr_in6 six = as<sockaddr_in6>(result.storage_);
  if (!IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) return result;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_port = six.sin6_port;
  std::memcpy(&four.sin_addr, six.sin6_addr.s6_addr + 12, 4);
  result.storage_ = {};
  std::memcpy(&result.storage_, &four, sizeof four);
  return result;
}

std::optional<Address> Address::numeric(const std::string& host, int port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (host.empty() ||
      ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return std::nullopt;
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, ::freeaddrinfo);
  return of(found->ai_addr, found->ai_addrlen);
}

std::optional<Address> Address::local_of(int socket) { return name_of(socket, ::getsockname); }
std::optional<Address> Address::remote_of(int socket) { return name_of(socket, ::getpeername); }

std::string Address::host() const {
  std::array<char, NI_MAXHOST> text{};
  if (::getnameinfo(data(), size(), text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0)
    return "?";
  return text.data();
}

int Address::port() const {
  if (family() == AF_INET) return ntohs(as<sockaddr_in>(storage_).sin_port);
  return family() == AF_INET6 ? ntohs(as<sockaddr_in6>(storage_).sin6_port) : 0;
}

std::string Address::text() const { return endpoint_text(host(), port()); }

socklen_t Address::size() const {
  return family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
}

bool Address::is_loopback() const {
  if (family() == AF_INET) return (ntohl(as<sockaddr_in>(storage_).sin_addr.s_addr) >> 24u) == 127u;
  return family() == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&as<sockaddr_in6>(storage_).sin6_addr);
}

bool Address::is_link_local() const {
  return family() == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&as<sockaddr_in6>(storage_).sin6_addr);
}

bool Address::same_host(const Address& other) const {
  if (family() != other.family()) return false;
  if (family() == AF_INET)
    return as<sockaddr_in>(storage_).sin_addr.s_addr ==
           as<sockaddr_in>(other.storage_).sin_addr.s_addr;
  const auto& a = as<sockaddr_in6>(storage_);
  const auto& b = as<sockaddr_in6>(other.storage_);
  return std::memcmp(&a.sin6_addr, &b.sin6_addr, sizeof a.sin6_addr) == 0 &&
         a.sin6_scope_id == b.sin6_scope_id;
}

Result<std::vector<Interface>> interfaces() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    return Error{ErrorKind::kUnavailable,
                 std::string("the interfaces of this machine cannot be listed: getifaddrs: ") +
                     std::strerror(errno)};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::vector<Interface> found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const bool six = entry->ifa_addr->sa_family == AF_INET6;
    const auto address =
        Address::of(entry->ifa_addr, six ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    if (address) found.push_back({entry->ifa_name, *address});
  }
  return found;
}

std::optional<std::string> interface_of(const Address& address,
                                        std::span<const Interface> interfaces) {
  for (const Interface& each : interfaces)
    if (each.address.same_host(address)) return each.name;
  // All of 127.0.0.0/8 is on the loopback interface, which has one address of it.
  if (address.is_loopback())
    for (const Interface& each : interfaces)
      if (each.address.is_loopback()) return each.name;
  return std::nullopt;
}

}  // namespace lockstep::control

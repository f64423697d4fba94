#include "control/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>

#include "base/endpoint.h"
#include "base/listed.h"
#include "base/unique_fd.h"

namespace lockstep::control {
namespace {

template <class Sockaddr>
const Sockaddr& as(const sockaddr_storage& storage) {
  return reinterpret_cast<const Sockaddr&>(storage);
}

bool is_any(const Address& address) {
  return address.host() == "0.0.0.0" || address.host() == "::";
}

bool is_multicast(const Address& address) {
  if (address.family() == AF_INET)
    return IN_MULTICAST(
        ntohl(reinterpret_cast<const sockaddr_in*>(address.data())->sin_addr.s_addr));
  return IN6_IS_ADDR_MULTICAST(&reinterpret_cast<const sockaddr_in6*>(address.data())->sin6_addr);
}

// The kernel knows which addresses are: it wants to be told that they are meant (socket(7)).
bool is_broadcast(const Address& address) {
  if (address.host() == "255.255.255.255") return true;
  const UniqueFd socket(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto target = Address::numeric(address.host(), 9);
  if (!socket || !target || ::connect(socket.get(), target->data(), target->size()) == 0 ||
      errno != EACCES)
    return false;
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_BROADCAST, &on, sizeof on);
  return ::connect(socket.get(), target->data(), target->size()) == 0;
}

// net.ipv4.ip_nonlocal_bind, net.ipv6.ip_nonlocal_bind: sockets may be bound to any address.
bool binds_to_any(int family) {
  int value = 0;
  std::ifstream(family == AF_INET ? "/proc/sys/net/ipv4/ip_nonlocal_bind"
                                  : "/proc/sys/net/ipv6/ip_nonlocal_bind") >>
      value;
  return value != 0;
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

std::string addresses_here() {
  const auto all = interfaces();
  return all.ok() ? addresses_here(*all) : all.error().message;
}

std::string addresses_here(std::span<const Interface> interfaces) {
  constexpr std::size_t kMost = 6;
  std::vector<std::string> names;
  for (const Interface& each : interfaces)
    if (!each.address.is_loopback() && !each.address.is_link_local())
      names.push_back(each.address.host() + " (" + each.name + ")");
  for (const Interface& each : interfaces)
    if (names.empty() && each.address.is_link_local()) names.push_back(each.address.host());
  if (names.empty()) return "this machine has no address but the loopback's";
  const std::size_t count = names.size();
  names.resize(std::min(count, kMost));
  return "this machine has " + listed(names, count);
}

std::string kind_of_no_machine(const Address& address) {
  if (is_any(address)) return "any address";
  if (is_multicast(address)) return "multicast";
  return is_broadcast(address) ? "broadcast" : "";
}

// What the kernel binds to is there, whether an interface shows it or not (ip route add local).
bool is_own(const Address& address) {
  if (is_any(address)) return true;
  if (!kind_of_no_machine(address).empty()) return false;
  const UniqueFd fd(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd || ::bind(fd.get(), address.data(), address.size()) != 0) return false;
  if (!binds_to_any(address.family())) return true;
  const auto all = interfaces();
  return all.ok() && interface_of(address, *all);
}

}  // namespace lockstep::control

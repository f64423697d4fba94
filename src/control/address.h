// Where sockets are: numeric addresses, those of this machine among them. Nothing here looks up a
// name, in either direction.
//
// Errors: kUnavailable. Threads: values, any.
#pragma once

#include <sys/socket.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::control {

// IPv4 or IPv6, with a port. An IPv4 address in IPv6's form (::ffff:10.0.0.1) is the IPv4 one.
class Address {
 public:
  // "10.0.0.1", "::1", "fe80::1%eth0"; nothing for a name, or a zone that is no interface here.
  static std::optional<Address> numeric(const std::string& host, int port);
  static std::optional<Address> of(const sockaddr* address, socklen_t size);
  // The ends of a connected or bound socket. Nothing: it is of another family.
  static std::optional<Address> local_of(int socket);
  static std::optional<Address> remote_of(int socket);

  std::string host() const;  // numeric, with the zone: fe80::1%eth0
  int port() const;
  std::string text() const;  // 10.0.0.1:29400, [::1]:29400
  int family() const { return storage_.ss_family; }
  bool is_loopback() const;  // 127.0.0.0/8, ::1
  bool is_link_local() const;
  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  socklen_t size() const;

  // Equal addresses, whatever the ports.
  bool same_host(const Address& other) const;
  friend bool operator==(const Address& a, const Address& b) {
    return a.same_host(b) && a.port() == b.port();
  }

 private:
  sockaddr_storage storage_{};
};

// An interface that is up, with one of its addresses (port 0).
struct Interface {
  std::string name;
  Address address;
};
Result<std::vector<Interface>> interfaces();

// The interface that has this address; of a loopback address the loopback interface ("lo"). What
// GLOO_SOCKET_IFNAME wants.
std::optional<std::string> interface_of(const Address& address,
                                        std::span<const Interface> interfaces);

// Whether this machine can be reached at it, from itself alone or from others. The wildcard
// addresses are: who connects to them gets to the loopback.
bool is_own(const Address& address);

// For messages: "this machine has 10.0.0.1 (eth0), fd00::1 (eth0)"; those by which others may reach
// it, a link-local one only where there is no other.
std::string addresses_here();
std::string addresses_here(std::span<const Interface> interfaces);

// What an address stands for that is no one machine's: "any address" (0.0.0.0, ::), "multicast", or
// "broadcast" of a network of this machine. "": it may be a machine's.
std::string kind_of_no_machine(const Address& address);

}  // namespace lockstep::control

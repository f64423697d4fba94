#include "launcher/nodes/routes.h"

#include <optional>
#include <utility>
#include <vector>

#include "control/address.h"

namespace lockstep::launcher {
namespace {

using control::Address;

Result<std::string> find_interface(const std::string& host) {
  const auto address = Address::numeric(host, 0);
  LOCKSTEP_ASSIGN(const std::vector<control::Interface> all, control::interfaces());
  auto found = address ? control::interface_of(*address, all) : std::nullopt;
  if (found) return *std::move(found);
  return Error{ErrorKind::kUnavailable, "no interface of this machine has the address " + host};
}

}  // namespace

Result<std::string> interface_of_route(const std::string& local) {
  return find_interface(local.empty() ? "127.0.0.1" : local);
}

std::string reached_from(const std::string& local, const std::string& address) {
  const std::string bare = address.substr(0, address.find('%'));
  const auto other = Address::numeric(bare, 0);
  if (!other || !other->is_link_local()) return address;
  const auto name = find_interface(local);
  return name.ok() ? bare + "%" + *name : address;
}

}  // namespace lockstep::launcher

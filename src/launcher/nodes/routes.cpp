#include "launcher/nodes/routes.h"

#include <vector>

#include "base/log.h"

namespace lockstep::launcher {
namespace {

using control::Address;

Result<std::string> find_interface(const Address& address) {
  LOCKSTEP_ASSIGN(const std::vector<control::Interface> all, control::interfaces());
  if (auto found = control::interface_of(address, all)) return *std::move(found);
  return Error{ErrorKind::kUnavailable,
               "no interface of this machine has the address " + address.host()};
}

}  // namespace

std::string interface_of_route(const std::optional<Address>& local) {
  auto name = find_interface(local ? *local : *Address::numeric("127.0.0.1", 0));
  if (name.ok()) return *std::move(name);
  log_warning(name.error().message + ": GLOO_SOCKET_IFNAME is not set for the workers");
  return "";
}

std::string reached_from(const std::optional<Address>& local, const std::string& address) {
  const std::string bare = address.substr(0, address.find('%'));
  const auto other = Address::numeric(bare, 0);
  if (!local || !other || !other->is_link_local()) return address;
  const auto name = find_interface(*local);
  return name.ok() ? bare + "%" + *name : address;
}

}  // namespace lockstep::launcher

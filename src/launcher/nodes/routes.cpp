#include "launcher/nodes/routes.h"

#include <chrono>
#include <optional>

#include "base/deadline.h"
#include "control/look_up.h"
#include "launcher/output/host_name.h"

namespace lockstep::launcher {
namespace {

using control::Address;

std::optional<std::string> find_interface(const std::string& host) {
  const auto address = Address::numeric(host, 0);
  const auto all = control::interfaces();
  return address && all.ok() ? control::interface_of(*address, *all) : std::nullopt;
}

// What Gloo takes; of a link-local address, which it cannot use, this very one.
Address first_of(const std::string& name, const Address& local,
                 std::span<const control::Interface> interfaces) {
  for (const control::Interface& each : interfaces)
    if (each.name == name && each.address.family() == local.family() && !local.is_link_local())
      return each.address;
  return local;
}

std::string own_name_leads_to() {
  const auto own =
      control::own_addresses(host_name(), Deadline::in(std::chrono::milliseconds(500)));
  return own.empty() ? "" : own.front();
}

}  // namespace

WorkersInterface interface_for_workers(const std::string& local,
                                       std::span<const control::Interface> interfaces,
                                       const std::function<std::string()>& own_name_leads_to) {
  const auto address = Address::numeric(local.empty() ? "127.0.0.1" : local, 0);
  const auto name = address ? control::interface_of(*address, interfaces) : std::nullopt;
  if (!name)
    return {"", "no interface of this machine has the address " + local +
                    ": GLOO_SOCKET_IFNAME and TP_SOCKET_IFNAME are not set for the workers"};
  const Address first = first_of(*name, *address, interfaces);
  if (address->is_loopback() || first.same_host(*address)) return {*name, ""};
  if (own_name_leads_to() == local) return {};
  const bool is_of_no_use = first.is_loopback();
  return {is_of_no_use ? "" : *name,
          "this node's address is " + local + ", and the first one of its interface " + *name +
              " is " + first.host() + ", which Gloo and TensorPipe " +
              (is_of_no_use ? "would take: GLOO_SOCKET_IFNAME is not set. "
                            : "take by GLOO_SOCKET_IFNAME=" + *name + ". ") +
              "If workers do not find each other, let the name of this machine (" + host_name() +
              ") lead to " + local + " in its /etc/hosts"};
}

WorkersInterface interface_for_workers(const std::string& local) {
  const auto all = control::interfaces();
  if (!all.ok()) return {"", all.error().message};
  return interface_for_workers(local, *all, own_name_leads_to);
}

std::string reached_from(const std::string& local, const std::string& address) {
  const std::string bare = address.substr(0, address.find('%'));
  const auto other = Address::numeric(bare, 0);
  if (!other || !other->is_link_local()) return address;
  const auto name = find_interface(local);
  return name ? bare + "%" + *name : address;
}

}  // namespace lockstep::launcher

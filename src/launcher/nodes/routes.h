// How this node reaches the others, for what its workers are told.
//
// `local`: this node's end of its connection to the leader, or at the leader where the others'
// connections come in; none: they meet on this machine, without an address. Threads: any.
#pragma once

#include <optional>
#include <string>

#include "control/address.h"

namespace lockstep::launcher {

// The interface: GLOO_SOCKET_IFNAME's value. Empty, with a warning: none has that address.
std::string interface_of_route(const std::optional<control::Address>& local);

// A numeric address of another node as it is to be used here: a link-local one goes by an interface
// of this node, whatever it is called over there (fe80::7%eth0 may be fe80::7%ens5 here). All
// others as they are.
std::string reached_from(const std::optional<control::Address>& local, const std::string& address);

}  // namespace lockstep::launcher

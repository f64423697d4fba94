// How this node reaches the others, for what its workers are told.
//
// `local`: where the others reach this node, numeric; empty: they are on this machine, and meet
// without an address. Threads: any.
#pragma once

#include <string>

#include "lockstep/status.h"

namespace lockstep::launcher {

// The interface: GLOO_SOCKET_IFNAME's value. kUnavailable: none has that address.
Result<std::string> interface_of_route(const std::string& local);

// A numeric address of another node as it is to be used here: a link-local one goes by an interface
// of this node, whatever it is called over there (fe80::7%eth0 may be fe80::7%ens5 here). All
// others as they are.
std::string reached_from(const std::string& local, const std::string& address);

}  // namespace lockstep::launcher

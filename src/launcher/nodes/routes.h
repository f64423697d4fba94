// How this node reaches the others, for what its workers are told.
//
// `local`: where the others reach this node, numeric; empty: they are on this machine, and meet
// without an address. Threads: any.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "control/address.h"

namespace lockstep::launcher {

// What workers are told of their node's interface, by which Gloo and TensorPipe find its address.
struct WorkersInterface {
  std::string name;     // of GLOO_SOCKET_IFNAME and TP_SOCKET_IFNAME; "": not to be set
  std::string warning;  // "": none
};
// Both take the *first* address of the interface, which need not be this node's: an address of the
// loopback interface (10.0.0.7/32 on lo, routed to the host), or a second one of eth0. Then it is
// left to the address that the machine's own name leads to, if that is the node's.
//
// `own_name_leads_to`: that address, numeric; "": none. It is asked for only where it matters.
WorkersInterface interface_for_workers(const std::string& local,
                                       std::span<const control::Interface> interfaces,
                                       const std::function<std::string()>& own_name_leads_to);
// As this machine is. It may block for half a second.
WorkersInterface interface_for_workers(const std::string& local);

// A numeric address of another node as it is to be used here: a link-local one goes by an interface
// of this node, whatever it is called over there (fe80::7%eth0 may be fe80::7%ens5 here). All
// others as they are.
std::string reached_from(const std::string& local, const std::string& address);

}  // namespace lockstep::launcher

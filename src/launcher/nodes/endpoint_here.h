// What the endpoint is as seen from this machine: the addresses that its name leads to, and which
// of them are this machine's. Names may lead to other places on other machines.
//
// Errors, with the remedy: kUsage; kUnavailable for a name of several machines, which may change.
// Threads: any.
#pragma once

#include <string>
#include <vector>

#include "base/deadline.h"
#include "control/address.h"
#include "launcher/options/nodes.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

struct EndpointHere {
  std::vector<control::Address> own, others;  // numeric, port 0
};
// Blocks until the deadline; a name that is not known yet leads to no address.
EndpointHere look_for_endpoint(const std::string& host, Deadline deadline);

// An endpoint of which it is clear that the nodes cannot meet there, whoever is started where:
// addresses of no machine; a name that leads to several machines, this one among them, so that each
// would lead and wait for the others.
Status check_endpoint_here(const NodesOptions& options, const EndpointHere& endpoint);

// --local-addr, `local`, by which no other node can reach this one, or this one the endpoint.
Status check_local_addr(const NodesOptions& options, const control::Address& local,
                        const EndpointHere& endpoint);

// What may be meant, and more often is not: the endpoint's name leads to the loopback, as in the
// /etc/hosts of many a machine, and it is not the name of this machine (`own_name`). "": none.
std::string doubt_of_endpoint(const NodesOptions& options, const EndpointHere& endpoint,
                              const std::string& own_name);

}  // namespace lockstep::launcher

// Which addresses of this machine a host stands for, and at which port a socket is.
//
// Threads: any.
#pragma once

#include <string>
#include <vector>

#include "base/deadline.h"

namespace lockstep {

// `host`: a name, which is looked up, or a numeric address; "0.0.0.0" and "::" stand for the
// loopback, as they do for who connects to them. Numeric, each once, in the resolver's order.
// Empty: they are other machines', or none were found in time.
std::vector<std::string> own_addresses(const std::string& host, Deadline deadline);

// Of a bound socket, IPv4 or IPv6; 0: it has none.
int port_of(int socket);

}  // namespace lockstep

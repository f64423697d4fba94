// Where the ends of a socket are. Threads: any.
#pragma once

#include <string>

namespace lockstep {

// Of a bound socket, IPv4 or IPv6; 0: it has none.
int port_of(int socket);

// The numeric address from which a connection comes, with the zone of a link-local one; of an IPv4
// address in IPv6's form (::ffff:10.0.0.1) the IPv4 one. "": from this machine, or nobody can say.
std::string comes_from(int socket);

}  // namespace lockstep

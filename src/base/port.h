// At which port a socket is. Threads: any.
#pragma once

namespace lockstep {

// Of a bound socket, IPv4 or IPv6; 0: it has none.
int port_of(int socket);

}  // namespace lockstep

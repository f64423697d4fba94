// The sockets on which launchers wait for each other. None of them blocks.
//
// Errors: kUnavailable with what was asked for. Threads: any.
#pragma once

#include <optional>

#include "base/unique_fd.h"
#include "control/address.h"
#include "lockstep/status.h"

namespace lockstep::control {

// On all addresses of the machine, of both families where it has both. Port 0: a free one.
Result<UniqueFd> listen_everywhere(int port);
// On this address alone.
Result<UniqueFd> listen_at(const Address& address);

// Within the machine: an abstract socket named by user and port, for those of this user alone. It
// is no file, needs no key, and nobody else can be reached by it.
Result<UniqueFd> listen_on_this_machine(int port);
// kUnavailable: nobody listens.
Result<UniqueFd> connect_on_this_machine(int port);
// Whether who is at the other end of such a socket is of this user, or root.
bool is_of_this_user(int socket);

}  // namespace lockstep::control

// The sockets on which launchers wait for each other. None of them blocks.
//
// Errors: kUnavailable with what was asked for; kUsage for a port that this user may not have.
// Threads: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "control/address.h"
#include "control/failure.h"
#include "lockstep/status.h"

namespace lockstep::control {

// On all addresses of the machine, of both families where it has both. Port 0: a free one.
Result<UniqueFd> listen_everywhere(int port);
// On this address alone.
Result<UniqueFd> listen_at(const Address& address);

// Begins to connect a socket of `to`'s family. `from`: its own address; none: the kernel chooses.
// 0: it is writable once that is over. Else an errno.
int begin_connect(int socket, const Address& to, const std::optional<Address>& from);
// Before it is connected: small segments both ways, which all networks let through (RFC 9293,
// section 3.7.1). What of that a kernel refuses stays as it was.
void take_small_segments(int socket);
inline constexpr int kSmallSegment = 536;  // bytes
// Into a fresh connection, at once, what surely fits there; false: not all of it.
bool send_whole(int socket, std::string_view bytes);
// What has been sent has not been acknowledged by the other machine's kernel: its programs may be
// stopped, and it acknowledges all the same.
bool is_unacknowledged(int socket);
// To be said where large packets are lost.
inline constexpr const char* kMendTheMtu =
    "; give all interfaces on the way one MTU (ip link set dev DEVICE mtu 1400)";
// The errno of a connect(2) that is over, or 0. A port of this machine that nobody listens on may
// be the very one that the kernel has chosen for us: that is ECONNREFUSED.
int error_of_connect(int socket);
Outcome outcome_of_connect(int error);

// Within the machine: an abstract socket named by user and port, for those of this user alone. It
// is no file, needs no key, and nobody else can be reached by it.
Result<UniqueFd> listen_on_this_machine(int port);
// kUnavailable: nobody listens.
Result<UniqueFd> connect_on_this_machine(int port);
// The same under a name of the caller's own, at most 100 bytes; any user may take any name.
Result<UniqueFd> listen_by_name(const std::string& name);
Result<UniqueFd> connect_by_name(const std::string& name);
// The names on this machine that begin so, as /proc tells. None of them need be there any more.
std::vector<std::string> names_on_this_machine(const std::string& begin);
// Whether who is at the other end of such a socket is of this user, or root.
bool is_of_this_user(int socket);

}  // namespace lockstep::control

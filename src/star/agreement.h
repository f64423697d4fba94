// What the agents of one run must agree in. Pure; any thread.
#pragma once

#include <optional>
#include <string>

#include "star/messages.h"

namespace lockstep::star {

// Refused::option where the lists of endpoints differ: that run may be somebody's else. With any
// other one the lists are the same.
inline constexpr const char* kEndpointsOption = "--rdzv-endpoint";

// Nothing: they agree. Else what the one that has come is told: the option, both values, both
// hosts, and what to do. `from`: its address, numeric.
std::optional<message::Refused> disagreement(const message::Hello& theirs, const std::string& from,
                                             const message::Hello& ours);

// kOtherRun: the endpoint is another run's now, which may end; everything else stays wrong.
int exit_code_of(message::Reason reason);

// Where the program or its arguments differ, which is common (paths of each machine): a sentence
// with what is around the first difference.
std::string other_program(const message::Hello& theirs, const message::Hello& ours);

// Where the leader sees a node by another address than the node has itself, as behind a NAT: a
// sentence with both and with the direction that works. Else empty.
std::string translation(const std::string& host, const std::string& own, const std::string& seen);

// The other way, behind the failure to reach the leader's own address: a node has reached the
// leader at another one, as by a forwarded port. Empty where it is the same.
std::string forwarding(const std::string& dialled, const std::string& own);

}  // namespace lockstep::star

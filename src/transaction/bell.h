// Waits at a worker's doorbell that end.
#pragma once

#include <chrono>
#include <functional>

#include "base/futex.h"
#include "lockstep/status.h"

namespace lockstep::transaction {

// The launcher evicts whoever hangs; this only ends waits that nobody else will. PyTorch's default
// for collectives.
inline constexpr std::chrono::minutes kPeerDeadline{30};

// kTimedOut: "waited … minutes for WHAT".
Status wait_bell(Doorbell& bell, const std::function<bool()>& done, const char* what,
                 std::chrono::minutes limit);

}  // namespace lockstep::transaction

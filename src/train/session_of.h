// The worker's talk with the launcher, which a Context keeps to itself.
#pragma once

#include "lockstep/context.h"
#include "worker/session.h"

namespace lockstep {

worker::Session& session_of(Context& context);

}  // namespace lockstep

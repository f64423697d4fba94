// The other end of answers.h: asks the launchers of a run on several nodes.
//
// Errors: kUnavailable where nobody is there, answers in time, or lets us in; what find_key() says.
// Threads: any.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "lockstep/status.h"
#include "star/messages.h"

namespace lockstep::launcher {

struct Question {
  enum class What { kStatus, kStop };
  What what = What::kStatus;
  std::string key_file;  // --key-file; empty: control::find_key() looks elsewhere
};

// The leader of the run that meets at this endpoint. A loopback host is looked for within this
// machine first, without a key.
Result<star::message::Answer> ask_endpoint(const std::string& host, int port,
                                           const Question& question);

// All launchers of this user's that have nodes of that run on this machine; the leader first.
Result<std::vector<star::message::Answer>> ask_this_machine(const std::string& run_id,
                                                            const Question& question);

}  // namespace lockstep::launcher

// How an agent starts the link of its host: the command line of `lockstep-link`, written and read.
// docs/design/hosts.md, "Links".
//
// Ownership: values. Errors: kUsage. Threads: any.
#pragma once

#include <chrono>
#include <span>
#include <string>
#include <vector>

#include "links/links.h"
#include "lockstep/status.h"

namespace lockstep::carrier {

struct Start {
  // Descriptors that the link inherits: the board's memory, its end of a stream socket to the
  // agent, and the socket on which it listens for other hosts' links.
  int board = -1, agent = -1, listener = -1;
  links::Party self;
  std::chrono::milliseconds silence = links::Limits{}.silence, ping = links::Limits{}.ping;
};

// What stands behind the program's name. `version`: the agent's; a link of another one ends.
std::vector<std::string> words_of(const Start& start, const std::string& version);
Result<Start> read_start(std::span<const std::string> words, const std::string& version);

}  // namespace lockstep::carrier

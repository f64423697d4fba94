// Where processes meet that were started by hand, and whether this one is to meet any.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>

#include "lockstep/context.h"
#include "lockstep/status.h"

namespace lockstep::worker {

struct Meeting {
  std::string host;  // as a number; 127.0.0.1 for each of the loopback's addresses
  int port = 0;
  int rank = 0, world_size = 1;
  std::chrono::milliseconds wait{};

  std::string address() const;  // for messages: tcp://HOST:PORT
  // Of the abstract socket, without its leading zero byte.
  std::string socket_name(uid_t user) const;
};

// By the program's own words, else by MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE unless a
// launcher has set them; nullopt: it runs alone. Errors: kUsage. Threads: main's: reads the
// environment.
Result<std::optional<Meeting>> meeting_of(const std::optional<Rendezvous>& rendezvous);

}  // namespace lockstep::worker

// Messages and descriptors over a SOCK_SEQPACKET socket.
//
// Ownership: sockets stay the caller's, received descriptors are close-on-exec and the receiver's.
// Errors: kUnavailable when the other side is gone, kTimedOut, kBadData. Threads: one sender and
// one receiver per socket at a time.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "coord/messages.h"
#include "lockstep/status.h"

namespace lockstep::coord {

inline constexpr std::size_t kMaxDescriptors = 8;  // beside one message

// For long messages, as far as the system allows it.
void make_room(int socket);
// A connected pair, close-on-exec, with room for long messages.
Result<std::pair<UniqueFd, UniqueFd>> make_channel();

// Never raises SIGPIPE.
Status send(int socket, const Message& message, Deadline deadline,
            std::span<const int> descriptors = {});

struct Received {
  Message message;
  std::vector<UniqueFd> descriptors;
};
// The next message. The other side's end: kUnavailable.
Result<Received> receive(int socket, Deadline deadline);

}  // namespace lockstep::coord

// What an agent and the link of its host say to each other, on a stream socket between the two:
// u32 bytes of the message, its type, its fields (base/wire.h).
//
// Ownership: values. Errors: kBadData. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "link/pair.h"
#include "links/links.h"
#include "lockstep/status.h"

namespace lockstep::carrier {

inline constexpr std::size_t kMostMessageBytes = std::size_t{8} << 20;

// The agent, at first and at each change: see Carrier::obey().
struct Obey {
  link::Orders orders;
  std::vector<links::Other> others;
};
// The link, of each Obey: nothing of those that its orders close can land any more.
struct Closed {
  link::Stamp round;
};
// The link, at each change: the hosts with which a stream is up.
struct Working {
  std::vector<link::HostIndex> hosts;
};
// The link: for the log.
struct Line {
  std::string text;
  // The other end has closed its stream: no news where it has left in order.
  bool is_end = false;
};
using Message = std::variant<Obey, Closed, Working, Line>;

// With its length in front.
std::string encode(const Message& message);
// The first message of `bytes`, which are then without it. None: not all of it has come.
Result<std::optional<Message>> take_message(std::string& bytes);

}  // namespace lockstep::carrier

// What is to be seen of a run from outside (`lockstep status`), by its leader or by one node. Plain
// values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nodes/words.h"

namespace lockstep::nodes {

// Who has one node rank.
struct Member {
  std::int32_t rank = 0;
  bool known = false;  // somebody has come for it; else the rest is empty
  bool connected = false;
  bool works = false;  // workers of its live, as far as it has told
  std::string address = {}, host = {};
  std::uint32_t workers = 0;
  std::uint64_t silent_ns = 0;  // since its last word; of the leader in its own node's view
};

struct View {
  // Waiting: without a leader, and nothing of it lives. Forming: with one, until all are there.
  enum class State : std::uint8_t { kWaiting, kForming, kRunning, kStopping, kEnding };
  State state = State::kForming;
  bool leads = false;
  // It has had workers, and keeps none while it is cut off: others may run in their place.
  bool fenced = false;
  std::int32_t rank = -1;  // of the node that answers; -1: it has none yet
  std::int32_t leader_rank = -1;
  std::int32_t nodes = 1, max_restarts = 0;
  Attempt attempt = 0;      // the highest; restarts used are one less
  std::uint32_t world = 0;  // workers of the attempt
  std::optional<Store> store;
  std::string why;  // the last attempt was ended; "": none was
  // Forming or waiting: since when, and what is left of join_timeout.
  std::uint64_t waits_ns = 0, left_ns = 0;
  std::vector<Member> members;  // by rank; of one that does not lead itself alone
  std::uint32_t newcomers = 0;  // forming: without a rank yet, beside `members`
  std::string waits_for = {};   // forming: Leader::missing()
};

}  // namespace lockstep::nodes

// What one agent says to another, with each heartbeat: its whole state, as a plain value. So it may
// come late, twice, or not at all.
//
// How a wire carries facts, which are long and change little: talk.h.
//
// Threads: values. Errors: none.
#pragma once

#include <cstdint>
#include <optional>

#include "quorum/facts.h"
#include "quorum/set.h"

namespace lockstep::quorum {

enum class Role : std::uint8_t { kFollows, kAsks, kLeads };

struct Message {
  Member from;
  // The sender's clock, in nanoseconds: of use to it alone. The answer's echo.
  std::uint64_t sent = 0;
  // `sent` of the newest heartbeat, request, answer or vote of the receiver in this term; 0: none.
  std::uint64_t echo = 0;
  std::uint64_t term = 0;
  Role role = Role::kFollows;
  std::optional<Member> vote, obeys;  // in this term
  SharedFacts facts;
  Stamp acknowledged;            // the newest facts that its host has carried out
  Stamp in_force;                // as Agent::in_force()
  std::uint64_t quorum_age = 0;  // of a leader, nanoseconds
  bool hears = false;            // a leader
  bool would = false;            // the receiver would get its vote
  bool you_were_in = false;      // the receiver: a set in force, as far as the sender knows
  bool out = false;              // it has been in a set, is in none, and will end
  bool attempt_is_over = false;  // its workers have run, and do not any more
  // The address and port at which it answers, as the receiver knows who has dialled it: no two that
  // live have one. Filled in by the receiver; 0: not known.
  std::uint64_t place = 0;
};

}  // namespace lockstep::quorum

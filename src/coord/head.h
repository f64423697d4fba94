// Who decides what the agent does about the workers of a run. A pure state machine: events and the
// time go in, actions with reasons come out; no clock, no file, no process. There is one for each
// kind of program:
//
//   coord::Coordinator   programs that link Lockstep (membership.h)
//   plain::OneHost       all others, which know torchrun's contract only (plain/one_host.h)
//
// Agent's loop: make the event, handle() it, obey the actions in order. Threads: one at a time.
// Errors: none; an event about an unknown or dead uid is ignored.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "coord/actions.h"
#include "coord/events.h"

namespace lockstep::coord {

// A longer silence of the agent itself is a pause (SIGSTOP, a frozen machine) and must not be held
// against the workers. Nanoseconds.
inline constexpr std::uint64_t kAgentPause = 1'000'000'000;

struct RunStatus {
  std::string_view state;  // starting, running, restarting, finishing, stopping or stopped
  std::int64_t world_size = 0, target_world_size = 0;  // who is a member; how many there shall be
  std::uint32_t virtual_workers = 0;
  std::uint64_t committed = 0;  // transactions
  int replacements_left = 0, max_replacements = 0;
  int restarts = 0, max_restarts = 0;
  std::size_t node = 0, nodes = 1;  // of a linked program's run: this one, by its index
};

class Head {
 public:
  virtual ~Head() = default;

  // `now_ns`: CLOCK_MONOTONIC, as in workers' stamps; of a run on several hosts by the clock of its
  // nodes (launcher/nodes/nodes_run.h). Never smaller than before.
  virtual Actions handle(const Event& event, std::uint64_t now_ns) = 0;
  // All workers of an attempt that another one may follow are killed and gone; what they have
  // started may live. The next attempt begins with the handle() after nothing_is_left().
  virtual bool looks_for_left() const { return false; }
  virtual void nothing_is_left() {}
  // For `lockstep status`.
  virtual RunStatus status() const = 0;
  // Before this time there is nothing to do unless an event comes; for the agent's timer. At most 1
  // s after `now_ns`.
  virtual std::uint64_t next_deadline(std::uint64_t now_ns) const = 0;
};

}  // namespace lockstep::coord

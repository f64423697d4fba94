// The coordinator: decides all that the agent does about the workers of a linked program (head.h),
// on the only host of a run or on one of several. docs/design/protocol.md has the rules it keeps.
//
// Life of the group:
//
//   starting -> running -> finishing -> stopped
//       ^          |
//       +---- restarting (rung 3: all killed, fresh board)
//   any -> stopping -> stopped
//
// The agent feeds Progress before Exited, and a Tick with Progress every 5 to 50 ms. Late messages
// of the dead are normal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "coord/head.h"
#include "coord/keeper_messages.h"
#include "coord/keeper_wire.h"
#include "coord/run_keeper.h"
#include "coord/run_lead.h"
#include "coord/settings.h"

namespace lockstep::coord {

// One of a run's hosts; the only one has no `to_run`.
struct HostPlace {
  std::uint16_t self = 0;              // its index
  std::vector<std::uint32_t> workers;  // asked for, of each host
  // To whoever leads, which may be this agent; from within a turn, and must not come back into it.
  ToRun to_run = {};
};

class Coordinator final : public Head {
 public:
  explicit Coordinator(const Config& config);
  Coordinator(const Config& config, HostPlace place);
  ~Coordinator() override;
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  Actions handle(const Event& event, std::uint64_t now_ns) override;
  RunStatus status() const override;
  std::uint64_t next_deadline(std::uint64_t now_ns) const override;

  // Of several hosts; each is a turn, as handle() is.
  // A state that is in force, newer than all before; and what changes all the time.
  Actions follow(const RunState& state, std::uint64_t now_ns);
  void note(const std::vector<Pulse>& pulses);
  // A round has taken these out: this board appends them, in this order.
  Actions append(const std::vector<Stay>& out, std::uint64_t now_ns);

  // It leads from now on, until it is said to lead no more; as RunLead's.
  RunLead& lead(const RunState& state, std::uint64_t as_of);
  void lead_no_more();
  RunLead* leads();  // null: it does not

  const RunFacts& facts() const;  // in force
  HostView view() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::coord

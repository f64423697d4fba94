// The coordinator: decides all that the agent does about the workers of a linked program (head.h).
// docs/design/protocol.md has the rules it keeps.
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

#include <cstdint>
#include <memory>

#include "coord/head.h"
#include "coord/settings.h"

namespace lockstep::coord {

class Coordinator final : public Head {
 public:
  explicit Coordinator(const Config& config);
  ~Coordinator() override;
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  Actions handle(const Event& event, std::uint64_t now_ns) override;
  RunStatus status() const override;
  std::uint64_t next_deadline(std::uint64_t now_ns) const override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::coord

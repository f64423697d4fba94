// The run's shared memory as the agent holds it: one memfd, mapped whole. A restart of the group
// makes a new one.
#pragma once

#include <cstddef>
#include <utility>

#include "base/unique_fd.h"
#include "coord/board.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

class SharedBoard {
 public:
  // Errors: kUnavailable, with the limit that is in the way.
  static Result<SharedBoard> make();
  SharedBoard(SharedBoard&& other) noexcept
      : fd_(std::move(other.fd_)),
        memory_(std::exchange(other.memory_, nullptr)),
        plan_(other.plan_) {}
  SharedBoard& operator=(SharedBoard&& other) noexcept;
  ~SharedBoard();

  int fd() const { return fd_.get(); }
  // Header and slots are in place before the plan is known.
  coord::Board view() const { return coord::Board(memory_, plan_); }
  void set_plan(const coord::BoardPlan& plan) { plan_ = plan; }

 private:
  SharedBoard(UniqueFd fd, void* memory) : fd_(std::move(fd)), memory_(memory) {}
  UniqueFd fd_;
  void* memory_;
  coord::BoardPlan plan_;
};

}  // namespace lockstep::launcher

// Plain collectives among the workers of a program with a loop of its own, in PyTorch's names. The
// group is fixed: after a death its calls fail, and the launcher starts all workers again
// (--max-restarts), as torchrun does. Runs that survive use Trainer or Step.
//
//   LOCKSTEP_ASSIGN(auto group, lockstep::init_process_group(context, {.output = "runs/1"}));
//   LOCKSTEP_TRY(group.all_reduce(correct));  // int64 tensor: the sum over ranks, in every rank
//   if (group.rank() == 0) save();
//   LOCKSTEP_TRY(group.barrier());
//
// All ranks make the same calls in the same order; another operation, dtype or size in a peer is an
// error that names both. CPU tensors.
// Errors: kUsage (mismatch, device), kPeerLost, kTimedOut; the first is final: every later call
// returns it. Threads: one at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/context.h"
#include "lockstep/status.h"

namespace lockstep {

namespace distributed {
struct GroupState;
}

struct ProcessGroupOptions {
  std::string output = "lockstep-run";  // the run directory: its lock and incidents
  // Of one collective, as PyTorch's `timeout`.
  std::chrono::milliseconds timeout = std::chrono::minutes(30);
};

class ProcessGroup {
 public:
  ProcessGroup(ProcessGroup&&) noexcept;
  ProcessGroup& operator=(ProcessGroup&&) noexcept;
  ~ProcessGroup();

  int rank() const;
  int world_size() const;

  // In place; the sum over ranks. Floating dtypes along the fixed tree (docs/design/arithmetic.md),
  // integers exactly (mod 2^bits), bool as logical or. PyTorch's ReduceOp.SUM.
  Status all_reduce(at::Tensor& tensor);
  // In place: what rank `src` has.
  Status broadcast(at::Tensor& tensor, int src = 0);
  // [world_size, ...tensor's shape], in order of ranks.
  Result<at::Tensor> all_gather(const at::Tensor& tensor);
  Status barrier();

 private:
  friend distributed::GroupState& state_of(ProcessGroup& group);
  friend Result<ProcessGroup> init_process_group(Context& context, ProcessGroupOptions options);
  explicit ProcessGroup(std::unique_ptr<distributed::GroupState> state);
  std::unique_ptr<distributed::GroupState> state_;
};

// Joins the other workers; a group of one without the launcher. Once per program, and not beside
// Trainer or Step. `context` outlives the group. Errors: kUsage, kDisk (the run directory),
// kUnavailable (it is in use).
Result<ProcessGroup> init_process_group(Context& context, ProcessGroupOptions options = {});

}  // namespace lockstep

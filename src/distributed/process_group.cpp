#include "distributed/process_group.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <csignal>

#include "base/env.h"
#include "base/guard.h"
#include "context/session_of.h"
#include "ddp/dtype.h"
#include "rundir/manifest.h"

namespace lockstep {
namespace {

std::span<std::byte> storage_of(const at::Tensor& contiguous) {
  return {static_cast<std::byte*>(contiguous.mutable_data_ptr()), contiguous.nbytes()};
}

// Counted from 1: 0 stands for bytes.
comm::ElementKind kind_of(const at::Tensor& tensor) {
  return static_cast<comm::ElementKind>(static_cast<int>(tensor.scalar_type()) + 1);
}

Status check(const at::Tensor& tensor, const char* call) {
  if (tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided) return {};
  return Error{ErrorKind::kUsage, std::string(call) + ": the tensor is " +
                                      (tensor.defined() ? "on " + tensor.device().str() +
                                                              "; dense CPU tensors can be exchanged"
                                                        : "undefined")};
}

worker::Description describe(const std::string& run_dir, int world_size) {
  worker::Description description;
  description.run_dir = run_dir;
  description.manifest = "{}";
  description.board.virtual_workers = static_cast<std::uint32_t>(world_size);
  description.virtual_workers = static_cast<std::uint32_t>(world_size);
  description.elastic = false;
  return description;
}

// The launcher gives up where not all come.
coord::Table first_table(worker::Session& session, coord::Board board) {
  coord::Table table;
  await(board.slot(session.identity().slot).bell,
        [&] { return coord::read_table(board.table(Txn(0)), Txn(0), table); });
  return table;
}

}  // namespace

Error distributed::GroupState::peer_lost() const {
  const std::vector<WorkerUid> dead = board.dead();
  for (std::size_t rank = 0; rank < table.members.size(); ++rank)
    if (std::find(dead.begin(), dead.end(), table.members[rank].uid) != dead.end())
      return {ErrorKind::kPeerLost,
              "rank " + std::to_string(rank) +
                  " has ended while others still wait for it: by an error, which the launcher's "
                  "first line tells, or because it made fewer calls or steps than the others (all "
                  "ranks must make the same)"};
  return {ErrorKind::kInternal, "the group failed, but no member of it is dead"};
}

distributed::GroupState& state_of(ProcessGroup& group) { return *group.state_; }

ProcessGroup::ProcessGroup(std::unique_ptr<distributed::GroupState> state)
    : state_(std::move(state)) {}
ProcessGroup::ProcessGroup(ProcessGroup&&) noexcept = default;
ProcessGroup& ProcessGroup::operator=(ProcessGroup&&) noexcept = default;
ProcessGroup::~ProcessGroup() = default;

int ProcessGroup::rank() const { return state_->group->rank().value(); }
int ProcessGroup::world_size() const { return state_->group->world_size(); }

Result<ProcessGroup> init_process_group(Context& context, ProcessGroupOptions options) {
  LOCKSTEP_ASSIGN(const std::string run_dir, absolute_path(options.output));
  if (rundir::has_manifest(posix_env(), run_dir))
    return Error{ErrorKind::kUsage, "'" + run_dir +
                                        "' holds a run of a Trainer or a Step, whose records would "
                                        "be lost; give the own loop another output"};
  worker::Session& session = session_of(context);
  // A loop of its own ends as its author wants it.
  if (const int come = session.release_signals()) std::raise(come);
  const worker::Description description = describe(run_dir, context.world_size());
  LOCKSTEP_ASSIGN(worker::Admission admission, session.describe(description));
  const coord::Board board(session.memory(), description.board);
  const worker::Identity& me = session.identity();
  auto state = std::make_unique<distributed::GroupState>(
      distributed::GroupState{session,
                              std::move(options),
                              std::move(admission.run_lock),
                              board,
                              comm::Engine(board, session.memory_bytes(), me.slot, me.uid),
                              {},
                              nullptr});
  LOCKSTEP_TRY(session.ready(Txn(0), 0));
  state->table = first_table(session, state->board);
  state->group = state->engine.make_group(state->table);
  return ProcessGroup(std::move(state));
}

Status ProcessGroup::all_reduce(at::Tensor& tensor) {
  return guarded("all_reduce", ErrorKind::kInternal, [&]() -> Status {
    LOCKSTEP_TRY(check(tensor, "all_reduce"));
    const at::NoGradGuard no_grad;
    if (const auto dtype = ddp::summed_dtype(tensor.scalar_type())) {
      at::Tensor whole = tensor.detach().contiguous();
      LOCKSTEP_TRY(state_->group->all_reduce(storage_of(whole), *dtype, state_->deadline()));
      if (whole.data_ptr() != tensor.data_ptr()) tensor.detach().copy_(whole);
      return {};
    }
    LOCKSTEP_ASSIGN(const at::Tensor all, all_gather(tensor));
    tensor.detach().copy_(all.sum(0, /*keepdim=*/false, tensor.scalar_type()));
    return {};
  });
}

Status ProcessGroup::broadcast(at::Tensor& tensor, int src) {
  return guarded("broadcast", ErrorKind::kInternal, [&]() -> Status {
    LOCKSTEP_TRY(check(tensor, "broadcast"));
    if (src < 0 || src >= world_size())
      return Error{ErrorKind::kUsage, "broadcast: src is rank " + std::to_string(src) +
                                          "; there are 0 to " + std::to_string(world_size() - 1)};
    const at::NoGradGuard no_grad;
    at::Tensor whole = tensor.detach().contiguous();
    LOCKSTEP_TRY(
        state_->group->broadcast(storage_of(whole), kind_of(whole), Rank(src), state_->deadline()));
    if (whole.data_ptr() != tensor.data_ptr()) tensor.detach().copy_(whole);
    return {};
  });
}

Result<at::Tensor> ProcessGroup::all_gather(const at::Tensor& tensor) {
  return guarded("all_gather", ErrorKind::kInternal, [&]() -> Result<at::Tensor> {
    LOCKSTEP_TRY(check(tensor, "all_gather"));
    const at::NoGradGuard no_grad;
    const at::Tensor mine = tensor.detach().contiguous();
    std::vector<std::int64_t> shape{world_size()};
    shape.insert(shape.end(), mine.sizes().begin(), mine.sizes().end());
    at::Tensor all = at::empty(shape, mine.options());
    LOCKSTEP_TRY(state_->group->all_gather(storage_of(mine), storage_of(all), kind_of(mine),
                                           state_->deadline()));
    return all;
  });
}

Status ProcessGroup::barrier() { return state_->group->barrier(state_->deadline()); }

}  // namespace lockstep

#include "lockstep/horovod.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::horovod {

struct Horovod::Impl {
  struct Run {
    Run(Context& context, RunOptions options) : step(context, state, std::move(options)) {}
    TrainState state;
    Step step;
  };

  bool knows(const torch::nn::Module& module) const {
    return std::find(modules.begin(), modules.end(), &module) != modules.end();
  }

  Context& context;
  int size = 1;
  // One of the two.
  std::unique_ptr<Run> run = nullptr;
  std::optional<ProcessGroup> group = std::nullopt;
  std::vector<const torch::nn::Module*> modules = {};  // broadcast_parameters() had them
  const Share* share = nullptr;                        // that a closure computes now
};

namespace {

Error wrong(const std::string& what) { return Error{ErrorKind::kUsage, "Horovod: " + what}; }

std::string numbered(const std::string& name, std::size_t number) {
  return number == 0 ? name : name + std::to_string(number);
}

Status broadcast_all(ProcessGroup& group, const NamedTensors& tensors, int root_rank) {
  for (const auto& [name, own] : tensors) {
    at::Tensor tensor = own;
    LOCKSTEP_TRY(group.broadcast(tensor, root_rank));
  }
  return {};
}

}  // namespace

Horovod::Horovod(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Horovod::Horovod(Horovod&&) noexcept = default;
Horovod::~Horovod() = default;

Result<Horovod> init(Context& context, RunOptions options) {
  LOCKSTEP_ASSIGN(const RunSoFar so_far, run_so_far(context, options));
  auto impl = std::make_unique<Horovod::Impl>(Horovod::Impl{context, so_far.virtual_workers});
  impl->run = std::make_unique<Horovod::Impl::Run>(context, std::move(options));
  return Horovod(std::move(impl));
}

Result<Horovod> init(Context& context, ProcessGroupOptions options) {
  LOCKSTEP_ASSIGN(ProcessGroup group, init_process_group(context, std::move(options)));
  auto impl = std::make_unique<Horovod::Impl>(Horovod::Impl{context, group.world_size()});
  impl->group.emplace(std::move(group));
  return Horovod(std::move(impl));
}

int Horovod::rank() const {
  if (impl_->share != nullptr) return static_cast<int>(impl_->share->virtual_worker());
  return impl_->group ? impl_->group->rank() : impl_->context.rank();
}
int Horovod::size() const { return impl_->size; }
int Horovod::local_rank() const { return impl_->context.local_rank(); }
Step* Horovod::step() { return impl_->run ? &impl_->run->step : nullptr; }
TrainState* Horovod::state() { return impl_->run ? &impl_->run->state : nullptr; }
ProcessGroup* Horovod::group() { return impl_->group ? &*impl_->group : nullptr; }

Status Horovod::broadcast_parameters(torch::nn::Module& module, int root_rank) {
  if (impl_->group)
    LOCKSTEP_TRY(broadcast_all(*impl_->group, state_dict(module), root_rank));
  else
    LOCKSTEP_TRY(impl_->run->state.add(numbered("model", impl_->modules.size()), module));
  impl_->modules.push_back(&module);
  return {};
}

Status Horovod::broadcast_optimizer_state(Optimizer& optimizer, int root_rank) {
  if (impl_->group) return broadcast_all(*impl_->group, optimizer.state(), root_rank);
  TrainState& state = impl_->run->state;
  return state.add(numbered("optimizer", state.optimizers().size()), optimizer);
}

DistributedOptimizer::DistributedOptimizer(Horovod& horovod, Optimizer& optimizer,
                                           torch::nn::Module& module)
    : horovod_(*horovod.impl_), optimizer_(optimizer) {
  if (!horovod_.knows(module))
    throw DistributedError(
        wrong("broadcast_parameters() has not had this module, so that workers could differ in "
              "it; call it before the DistributedOptimizer is made"));
  if (!horovod_.group) return;
  engine_.emplace(module, *horovod_.group, DdpOptions{.broadcast_buffers = false});
  engine_->sync_every_backward();
}

Status DistributedOptimizer::step(const Step::Closure& closure) {
  if (!horovod_.run)
    return wrong(
        "step(closure) needs a run, init(context, RunOptions); in a fixed group it is backward() "
        "and then step()");
  const auto with_rank = [&](Share& share) {
    horovod_.share = &share;
    struct Back {
      ~Back() { share = nullptr; }
      const Share*& share;
    } const back{horovod_.share};
    return closure(share);
  };
  return horovod_.run->step.run(optimizer_, with_rank);
}

Status DistributedOptimizer::step() {
  if (!engine_)
    return wrong(
        "step() without a closure needs a worker for each rank, and none may be lost: a fixed "
        "group, init(context, ProcessGroupOptions). In a run give step() the closure");
  LOCKSTEP_TRY(engine_->check());
  optimizer_.step();
  return {};
}

}  // namespace lockstep::horovod

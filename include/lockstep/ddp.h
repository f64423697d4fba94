// torch.nn.parallel.DistributedDataParallel for C++ modules, for loops in PyTorch's style: one
// batch per rank, gradients averaged over ranks while backward runs.
//
//   LOCKSTEP_ASSIGN(auto group, lockstep::init_process_group(context));
//   lockstep::DistributedDataParallel ddp(Net(), group);
//   // Then, for each batch:
//   optimizer.zero_grad();
//   auto loss = F::cross_entropy(ddp(batch.inputs), batch.targets);
//   loss.backward();  // on return every grad() is the mean over ranks
//   optimizer.step();
//
// As in PyTorch: parameters and buffers are rank 0's at the start; before each forward outside of
// no_sync() the buffers are rank 0's again; gradients of backwards inside no_sync() add up locally
// and go with the next synchronised one; all ranks call forward and backward in turn. With 1 or 2
// ranks the gradients have the bits of PyTorch's own DDP over Gloo; with more, of the fixed tree
// (docs/design/arithmetic.md).
//
// Errors: autograd can only throw, so this class throws DistributedError (from the constructor,
// forward and backward); catch_errors() makes a Status of it. Another rank's death: kPeerLost.
// Threads: one. Ownership: shares the module; `group` outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>

#include "lockstep/process_group.h"
#include "lockstep/status.h"

namespace torch::nn {
class Module;
}

namespace lockstep {

class DistributedError : public std::runtime_error {
 public:
  explicit DistributedError(Error error)
      : std::runtime_error(error.message), error_(std::move(error)) {}
  const Error& error() const { return error_; }

 private:
  Error error_;
};

// body()'s status; an exception in it becomes an error: DistributedError's own, any other kInternal
// with its text.
Status catch_errors(const std::function<Status()>& body);

// PyTorch's names and defaults.
struct DdpOptions {
  double bucket_cap_mb = 25;
  bool broadcast_buffers = true;
  // False: a parameter without gradient is an error that names it. True: it counts as zeros, and
  // keeps its grad() if no rank used it.
  bool find_unused_parameters = false;
};

// All of it but the module's type.
class DdpEngine {
 public:
  DdpEngine(torch::nn::Module& module, ProcessGroup& group, const DdpOptions& options);
  DdpEngine(DdpEngine&&) noexcept;
  ~DdpEngine();
  void before_forward();
  bool set_sync(bool sync);  // returns what it was
  // From now on every backward synchronises, whether there was a before_forward() or not: for a
  // module that is called by itself.
  void sync_every_backward();
  // The first failure, for good; looks at the module's parameters, too.
  const Status& check();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// `Holder`: what TORCH_MODULE makes, or a std::shared_ptr of a module.
template <class Holder>
class DistributedDataParallel {
  static_assert(
      requires(Holder & holder) { holder->parameters(); },
      "give the holder (Net, or a std::shared_ptr of a module), not the module itself");

 public:
  DistributedDataParallel(Holder module, ProcessGroup& group, const DdpOptions& options = {})
      : module_(std::move(module)), engine_(*module_, group, options) {}

  template <class... Args>
  auto forward(Args&&... args) {
    engine_.before_forward();
    return module_->forward(std::forward<Args>(args)...);
  }
  template <class... Args>
  auto operator()(Args&&... args) {
    return forward(std::forward<Args>(args)...);
  }

  Holder module() const { return module_; }
  // The module's own; names have no "module." in front.
  auto parameters() const { return module_->parameters(); }
  auto named_parameters() const { return module_->named_parameters(); }
  void train(bool on = true) { module_->train(on); }
  void eval() { module_->eval(); }

  // While it lives, backwards do not synchronise.
  class NoSync {
   public:
    explicit NoSync(DdpEngine& engine) : engine_(engine), before_(engine.set_sync(false)) {}
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;
    ~NoSync() { engine_.set_sync(before_); }

   private:
    DdpEngine& engine_;
    bool before_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(engine_); }

 private:
  Holder module_;
  DdpEngine engine_;
};

}  // namespace lockstep

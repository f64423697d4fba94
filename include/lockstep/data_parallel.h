// torch.nn.DataParallel for C++ modules: one process cuts each batch among R replicas of the model,
// each in a thread of its own, and gathers what they give. One loss over the gathered outputs.
//
//   auto net = Net();
//   lockstep::DataParallel model(net, [] { return Net(); }, 4);
//   options.virtual_workers = 1;
//   options.identity["replicas"] = std::to_string(model.replicas());
//   lockstep::Trainer trainer(context, *net, optimizer, options);
//   trainer.loss([&](const Batch& batch) {
//     return F::cross_entropy(model(batch.inputs), batch.targets);
//   });
//
// A replica is not a virtual worker: all of them are one share of the step, and their gradients are
// summed, not averaged. What it computes: "Replicas" in docs/design/arithmetic.md; R decides bits,
// so it belongs into RunOptions::identity. In short, as PyTorch:
//
// Chunks are torch.chunk's along dimension 0: unequal where R does not divide the batch, fewer than
// R where it is short. One chunk (R = 1, too) is a plain forward of the module. Replicas have the
// module's parameters, in the same memory; a forward begins with the module's training modes,
// requires_grad and buffers, and the module keeps the buffers of replica 0. Gradients reach the
// module's parameters in one piece, summed along the fixed tree over the replicas: hooks,
// optimizers, Step, Trainer and DistributedDataParallel see nothing unusual. A model that draws
// random numbers (dropout) is noticed: its forwards run one replica after another, each with a
// random stream of its own.
//
// `make` gives another module of the same structure (it may draw initial values: they are thrown
// away, and the default generator is as it was). Only registered parameters, buffers and training
// modes follow the module: what else a module keeps must be the same from `make`.
// CPU tensors; no second derivatives. Errors are thrown, as by DistributedDataParallel: R below 1,
// a `make` of another structure, inputs that cannot be cut (kUsage). A replica's own exception is
// passed on, the first replica's if there are several.
// Threads: one at a time; each replica's kernels use at::get_num_threads() threads. Ownership:
// shares the module.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/ddp.h"

namespace lockstep {

// All of it but the module's type.
class DataParallelEngine {
 public:
  using Chunk = std::vector<at::Tensor>;  // of each input
  // [b, ...] -> [b, ...], with replica `replica` of 0 .. R - 1, or R: the module itself.
  using Forward = std::function<at::Tensor(std::size_t replica, const Chunk& chunk)>;

  // `make` gives one replica each time, which the caller keeps alive.
  DataParallelEngine(torch::nn::Module& module, int replicas,
                     const std::function<torch::nn::Module&()>& make);
  DataParallelEngine(DataParallelEngine&&) noexcept;
  ~DataParallelEngine();
  at::Tensor forward(const std::vector<at::Tensor>& inputs, const Forward& forward);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// `Holder`: what TORCH_MODULE makes, or a std::shared_ptr of a module.
template <class Holder>
class DataParallel {
  static_assert(
      requires(Holder & holder) { holder->parameters(); },
      "give the holder (Net, or a std::shared_ptr of a module), not the module itself");

 public:
  DataParallel(Holder module, const std::type_identity_t<std::function<Holder()>>& make,
               int replicas)
      : module_(std::move(module)),
        replicas_(replicas),
        engine_(*module_, replicas, [&]() -> torch::nn::Module& {
          holders_.push_back(make());
          return *holders_.back();
        }) {
    holders_.push_back(module_);  // the engine's number R
  }

  // Tensors of equal size along dimension 0, all of them cut; gathered along dimension 0.
  template <class... Tensors>
  at::Tensor forward(const Tensors&... inputs) {
    return engine_.forward({inputs...}, [this](std::size_t replica, const auto& chunk) {
      return call(holders_[replica], chunk, std::index_sequence_for<Tensors...>());
    });
  }
  template <class... Tensors>
  at::Tensor operator()(const Tensors&... inputs) {
    return forward(inputs...);
  }

  Holder& module() { return module_; }
  int replicas() const { return replicas_; }
  // The module's own; names have no "module." in front.
  auto parameters() const { return module_->parameters(); }
  auto named_parameters() const { return module_->named_parameters(); }
  void train(bool on = true) { module_->train(on); }
  void eval() { module_->eval(); }

 private:
  template <std::size_t... I>
  static at::Tensor call(Holder& holder, const DataParallelEngine::Chunk& chunk,
                         std::index_sequence<I...>) {
    return holder->forward(chunk[I]...);
  }

  Holder module_;
  int replicas_;
  std::vector<Holder> holders_;  // the replicas, then the module
  DataParallelEngine engine_;
};

}  // namespace lockstep

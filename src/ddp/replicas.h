// Copies of a module that share its parameters' memory, for DataParallel.
//
// Ownership: refers to module and replicas. Errors: DistributedError of kUsage for a replica of
// another structure. Threads: one at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <vector>

namespace torch::nn {
class Module;
}

namespace lockstep::ddp {

class Replicas {
 public:
  explicit Replicas(torch::nn::Module& module) : module_(tensors_of(module)) {}

  void add(torch::nn::Module& replica);
  std::size_t size() const { return replicas_.size(); }
  const std::vector<at::Tensor>& module_parameters() const { return module_.parameters; }
  const std::vector<at::Tensor>& parameters(std::size_t replica) const {
    return replicas_[replica].parameters;
  }
  // The first `count` replicas become what the module is. Buffers: replica 0 has the module's own
  // memory, the others copies.
  void follow_module(std::size_t count);
  // Copies of the module's buffers, and back into them.
  std::vector<at::Tensor> save_buffers() const;
  void restore_buffers(const std::vector<at::Tensor>& saved);

 private:
  // Each once, though a submodule may be there under two names.
  struct Tensors {
    std::vector<torch::nn::Module*> modules;
    std::vector<at::Tensor> parameters, buffers;
  };
  static Tensors tensors_of(torch::nn::Module& module);

  Tensors module_;
  std::vector<Tensors> replicas_;
};

}  // namespace lockstep::ddp

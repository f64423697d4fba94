#include "ddp/replicas.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <string>

#include "lockstep/ddp.h"

namespace lockstep::ddp {
namespace {

std::vector<at::Tensor> without_repeats(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> once;
  for (const at::Tensor& tensor : tensors)
    if (std::none_of(once.begin(), once.end(), [&](const auto& o) { return o.is_same(tensor); }))
      once.push_back(tensor);
  return once;
}

std::string shape_of(const at::Tensor& tensor) {
  std::string text = toString(tensor.scalar_type());
  for (const std::int64_t size : tensor.sizes()) text += " " + std::to_string(size);
  return text;
}

[[noreturn]] void refuse(const std::string& what) {
  throw DistributedError({ErrorKind::kUsage, "DataParallel: " + what +
                                                 "; `make` must give a new module of the same "
                                                 "structure each time it is called"});
}

void compare(const char* kind, const std::vector<at::Tensor>& ours,
             const std::vector<at::Tensor>& theirs) {
  if (ours.size() != theirs.size())
    refuse("the module has " + std::to_string(ours.size()) + " " + kind + "s, the replica " +
           std::to_string(theirs.size()));
  for (std::size_t i = 0; i < ours.size(); ++i) {
    const std::string number = std::string(kind) + " " + std::to_string(i);
    if (ours[i].is_same(theirs[i])) refuse(number + " of the replica is the module's own");
    if (shape_of(ours[i]) != shape_of(theirs[i]))
      refuse(number + " is " + shape_of(ours[i]) + " in the module, " + shape_of(theirs[i]) +
             " in the replica");
  }
}

}  // namespace

Replicas::Tensors Replicas::tensors_of(torch::nn::Module& module) {
  Tensors tensors;
  for (const auto& each : module.modules(/*include_self=*/false))
    tensors.modules.push_back(each.get());
  tensors.modules.insert(tensors.modules.begin(), &module);  // parents come first
  tensors.parameters = without_repeats(module.parameters());
  tensors.buffers = without_repeats(module.buffers());
  return tensors;
}

void Replicas::add(torch::nn::Module& replica) {
  Tensors tensors = tensors_of(replica);
  if (tensors.modules.size() != module_.modules.size())
    refuse("the module has " + std::to_string(module_.modules.size()) + " layers, the replica " +
           std::to_string(tensors.modules.size()));
  compare("parameter", module_.parameters, tensors.parameters);
  compare("buffer", module_.buffers, tensors.buffers);
  for (const Tensors& other : replicas_) {
    compare("parameter", other.parameters, tensors.parameters);
    compare("buffer", other.buffers, tensors.buffers);
  }
  replicas_.push_back(std::move(tensors));
}

void Replicas::follow_module(std::size_t count) {
  const at::NoGradGuard no_grad;
  for (std::size_t r = 0; r < count; ++r) {
    Tensors& replica = replicas_[r];
    for (std::size_t i = 0; i < module_.modules.size(); ++i)
      replica.modules[i]->train(module_.modules[i]->is_training());
    for (std::size_t i = 0; i < module_.parameters.size(); ++i) {
      replica.parameters[i].set_data(module_.parameters[i]);
      replica.parameters[i].set_requires_grad(module_.parameters[i].requires_grad());
    }
    for (std::size_t i = 0; i < module_.buffers.size(); ++i) {
      if (r == 0)
        replica.buffers[i].set_data(module_.buffers[i]);
      else
        replica.buffers[i].copy_(module_.buffers[i]);
    }
  }
}

std::vector<at::Tensor> Replicas::save_buffers() const {
  std::vector<at::Tensor> copies;
  for (const at::Tensor& buffer : module_.buffers) copies.push_back(buffer.detach().clone());
  return copies;
}

void Replicas::restore_buffers(const std::vector<at::Tensor>& saved) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < saved.size(); ++i) module_.buffers[i].copy_(saved[i]);
}

}  // namespace lockstep::ddp

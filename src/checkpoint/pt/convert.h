// Values of a .pt file as libtorch's tensors and modules, and back: the only part that knows it.
//
//   pt::Exporter out;  // one per file: shared storages stay shared
//   auto model = out.state_dict(*net);
//   pt::write(env, path, Value::dict({{"MODEL_STATE", *model}, {"EPOCHS_RUN", 3}}));
//   auto snapshot = pt::read(env, path);
//   pt::load_state_dict(*net, *snapshot->find("MODEL_STATE"));
//
// Optimizers' states: pt/optimizer.h. Errors: kUsage (a tensor that is undefined, sparse or of
// another dtype than checkpoint/tensor.h lists), kBadData (a value that does not fit), kInternal
// (libtorch's). Threads: an object from one at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/pt/tensor.h"
#include "checkpoint/tensors.h"
#include "lockstep/checkpoint.h"

namespace torch::nn {
class Module;
}

namespace lockstep::checkpoint::pt {

class Exporter {
 public:
  // A view of the same memory: on the CPU it is read when the value is written, not now. Of a
  // tensor on another device its whole storage is copied, once.
  Result<pickle::Value> tensor(const at::Tensor& tensor);
  Result<pickle::Value> state_dict(const NamedTensors& tensors);
  // In the order of Python's Module.state_dict(), with its _metadata: version 2 of modules with a
  // num_batches_tracked, else 1.
  Result<pickle::Value> state_dict(const torch::nn::Module& module);

 private:
  Result<pickle::Value> add(const std::string& name, const at::Tensor& given);

  std::map<const void*, std::shared_ptr<Storage>> storages_;
};

class Importer {
 public:
  // On the CPU, in the value's memory; tensors of one storage share it. A leaf.
  Result<at::Tensor> tensor(const pickle::Value& value);
  // Of a dict with text as keys and tensors as values, in its order. Of objects of a C++ archive
  // (Dict::object) the tensors at any depth, under names joined by dots.
  Result<NamedTensors> state_dict(const pickle::Value& dict);
  // The same with what is not read, or is no tensor, in its place. kBadData: there is no tensor.
  Result<std::vector<GivenTensor>> given(const pickle::Value& dict);

 private:
  Status add(const pickle::Value& dict, const std::string& folder, std::vector<GivenTensor>& all);
  Result<GivenTensor> one(const std::string& name, const pickle::Value& value);

  std::map<const void*, at::Tensor> storages_;
};

// By load_module() of checkpoint/module_state.h, strictly.
Status load_state_dict(torch::nn::Module& module, const pickle::Value& dict);

}  // namespace lockstep::checkpoint::pt

// Where load_state_dict() takes a module's tensors from: whatever lies at a path.
//
// Errors: kBadData, kDisk. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/tensors.h"
#include "lockstep/status.h"
#include "pickle/value.h"

namespace lockstep::checkpoint::pt {

struct Weights {
  std::vector<GivenTensor> tensors;  // under the module's own names
  std::string of_module;             // "module 'generator': " where it is one of several
  std::string remark;                // what an error that they do not fit has to add
};

// A .pt file's state_dict under `key`, or its own; a safetensors file's tensors; of a checkpoint,
// or of a run's newest whole one, verified, the module that is called `key`. Where the checkpoint
// does not have several, or the key is empty, it is the whole part "model".
Result<Weights> weights_at(const std::string& path, const std::string& key);

// Of a .pt file: what is under `key`; without one its own value.
Result<pickle::Value> value_at(const std::string& path, const std::string& key);

}  // namespace lockstep::checkpoint::pt

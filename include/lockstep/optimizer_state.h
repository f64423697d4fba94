// torch.optim's state_dict() as data: Optimizer::state_dict() gives it and load_state_dict() takes
// it (lockstep/optim.h), .pt files hold it (lockstep/checkpoint.h). Without libtorch: include it
// yourself to make tensors.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/named_tensors.h"

namespace lockstep {

struct OptimizerStateDict {
  // None, a flag, a number, or several of them (betas).
  using Setting = std::variant<std::monostate, bool, double, std::vector<double>>;
  using Settings = std::vector<std::pair<std::string, Setting>>;
  struct Group {
    Settings settings;                 // "lr" ..., under PyTorch's names
    std::vector<std::int64_t> params;  // numbers of parameters, as in `state`
  };
  // Of each parameter that was updated: "step" (a scalar), "exp_avg" ..., in PyTorch's order.
  std::vector<std::pair<std::int64_t, NamedTensors>> state;
  std::vector<Group> param_groups;
};

}  // namespace lockstep

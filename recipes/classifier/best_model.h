// output_model/best_model.pt: the best model so far, as the tutorial's torch.save() makes it and
// its torch.load() reads it.
#pragma once

#include <optional>
#include <string>

#include "lockstep/status.h"
#include "lockstep/trainer.h"

namespace torch::nn {
class Module;
}

namespace classifier {

// `epoch` (from 0), `machine`, `model_state_dict`, `accuracy` and `loss` of the validation.
lockstep::Status save_best(const std::string& path, const lockstep::EpochEnd& end,
                           const torch::nn::Module& model);

// Where a run goes on that has nothing but this file, its weights brought into the model: behind
// its epoch, with its accuracy as the best so far. nullopt: no such file. kBadData: another's.
lockstep::Result<std::optional<lockstep::StartPoint>> load_best(const std::string& path,
                                                                torch::nn::Module& model);

}  // namespace classifier

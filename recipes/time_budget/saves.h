// training_saves/NAME.pt, the best model so far with all that the tutorial's trainer needs to go
// on, and NAME_metrics.pt, the same without the model: as its torch.save() makes them, and as its
// torch.load() and `lockstep report` read them.
#pragma once

#include <optional>

#include "lockstep/status.h"
#include "lockstep/trainer.h"
#include "options.h"

namespace torch::nn {
class Module;
}

namespace time_budget {

// Writes NAME_metrics.pt and, if this end is the best, NAME.pt: then true.
lockstep::Result<bool> write_saves(const Options& options, const lockstep::EpochEnd& end,
                                   const torch::nn::Module& model);

// Where a run goes on that has nothing but NAME.pt. nullopt: no such file. kBadData: another's.
lockstep::Result<std::optional<lockstep::StartPoint>> load_snapshot(const Options& options,
                                                                    torch::nn::Module& model);

}  // namespace time_budget

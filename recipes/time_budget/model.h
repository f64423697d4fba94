// The tutorial's model: torchvision's VGG-19 with a classifier of its own, all of it trained.
#pragma once

#include <memory>

#include "lockstep/models.h"
#include "lockstep/status.h"
#include "options.h"

namespace time_budget {

// Drawn from libtorch's default generator, in Python's order: first torchvision's network, then the
// new classifier 25088-4096-2048-classes. `weights`: torchvision's file, or none.
lockstep::Result<std::shared_ptr<lockstep::models::Backbone>> make_model(const Options& options,
                                                                         std::int64_t classes);

}  // namespace time_budget

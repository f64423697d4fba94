// Which modules' gradients are sparse, known without a backward.
// Errors: kUsage. Threads: functions.
#pragma once

#include <string>

#include "lockstep/status.h"

namespace torch::nn {
class Module;
}

namespace lockstep::optim {

// kUsage for an Embedding or EmbeddingBag with sparse(true) in it whose weight gets a gradient:
// named, as it is called under `prefix`.
Status check_dense(const torch::nn::Module& module, const std::string& prefix);

}  // namespace lockstep::optim

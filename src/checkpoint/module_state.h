// A module's tensors under their names, as torch/nn/modules/module.py's state_dict() and
// load_state_dict() have them. Errors: kBadData (what does not fit), kInternal (libtorch's).
// Threads: one at a time for a module.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/tensors.h"
#include "lockstep/checkpoint.h"

namespace torch::nn {
class Module;
}

namespace lockstep::checkpoint {

// The module and those in it, with their prefixes ("", "features.", "features.0."), each before its
// children: state_dict()'s order. One that is registered twice comes twice.
using OfModule = std::function<void(const std::string& prefix, const torch::nn::Module& module)>;
void for_each_module(const torch::nn::Module& module, const OfModule& call);

// Parameters and buffers; tied ones under each of their names.
NamedTensors module_tensors(const torch::nn::Module& module);

inline constexpr std::string_view kCounter = "num_batches_tracked";

// Into the module's own tensors (any device). Names are matched as by match_names(). One that is
// missing is no loss if its memory lies within that of one that is there (tied weights), or if it
// counts batches (files before torch 0.4.1 have none). Names (with `strict`), shapes and dtypes
// that do not fit are an error, and nothing is changed; else what was missing and unexpected.
Result<IncompatibleKeys> load_module(torch::nn::Module& module,
                                     const std::vector<GivenTensor>& given, bool strict);

}  // namespace lockstep::checkpoint

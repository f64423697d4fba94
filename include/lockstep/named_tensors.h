// Tensors with their names, in order: what parts of a model, an optimizer or a checkpoint consist
// of. Without libtorch: include it yourself to make tensors.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace at {
class Tensor;
}

namespace lockstep {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

}  // namespace lockstep

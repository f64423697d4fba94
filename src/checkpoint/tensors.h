// libtorch's tensors as named bytes, and back.
//
// Tensors on the CPU in C order are used in place; all others (another device, channels_last,
// transposed) go through a copy. Errors: kUsage (undefined, sparse, of a dtype that the format
// lacks); libtorch's exceptions become kInternal. Threads: any.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/image.h"
#include "checkpoint/module_in.h"
#include "checkpoint/search.h"
#include "checkpoint/tensor.h"
#include "lockstep/checkpoint.h"

namespace lockstep::checkpoint {

std::optional<DType> dtype_of(at::ScalarType type);
at::ScalarType scalar_type(DType dtype);

// What a file has under a name.
struct GivenTensor {
  TensorInfo info;
  at::Tensor tensor;         // undefined: of a kind that is not read
  std::string instead = {};  // "an int": no tensor at all
};

// All tensors of a safetensors file, in its header's order; new ones on the CPU. With `only`: of
// that module, under its own names.
Result<std::vector<GivenTensor>> load_listed(const std::string& path,
                                             const ModulePlace* only = nullptr);

// For Writer::snapshot(). Holds the tensors (or their copies) as long as it lives.
class Sources {
 public:
  static Result<Sources> of(std::span<const CheckpointPart> parts);
  std::span<const Part> parts() const { return parts_; }

 private:
  std::vector<at::Tensor> kept_;
  std::vector<Part> parts_;
};

// For load_newest(); finish() then carries copies into the tensors that could not be filled in
// place.
class Targets {
 public:
  static Result<Targets> of(std::span<const CheckpointPart> parts);
  std::span<const PartTarget> parts() const { return parts_; }
  Status finish();

 private:
  struct Copy {
    at::Tensor to;
    at::Tensor from;
  };
  std::vector<at::Tensor> kept_;
  std::vector<Copy> copies_;
  std::vector<PartTarget> parts_;
};

}  // namespace lockstep::checkpoint

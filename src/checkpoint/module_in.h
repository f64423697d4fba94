// Where one module's tensors lie in a checkpoint of several: by the map in its manifest or, in one
// without a map (of a run before there were maps, or by save_checkpoint()), by their names.
//
// Pure. Errors: kBadData.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "checkpoint/manifest.h"
#include "checkpoint/tensor.h"
#include "lockstep/status.h"

namespace lockstep::checkpoint {

struct ModulePlace {
  std::string part;                  // the file it is in: "model"
  std::size_t first = 0, count = 0;  // of its tensors, in the order of its header
  std::string prefix;                // of their names there; a module's own begin behind it

  bool has(std::size_t tensor) const { return tensor >= first && tensor - first < count; }
};

// "'generator', 'discriminator'"; empty: the manifest has no map.
std::string modules_in_words(const Manifest& manifest);

// `model`: the tensors of the part "model", in the order of its header; empty if there is none.
// With a map, the module must be in it; the error lists those that are. Without: a part of that
// name, or those tensors of "model" that begin with "NAME."; nullopt: neither is there. Both, or
// such tensors in several places, are ambiguous, an error.
Result<std::optional<ModulePlace>> find_module(const Manifest& manifest, const std::string& name,
                                               std::span<const TensorInfo> model);

}  // namespace lockstep::checkpoint

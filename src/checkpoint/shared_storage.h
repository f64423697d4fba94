// Tensors of a module that lie in the same memory.
#pragma once

#include <ATen/core/Tensor.h>

#include "checkpoint/safetensors.h"
#include "lockstep/named_tensors.h"

namespace lockstep::checkpoint {

// Which memory it lies in; nullptr: in none.
const void* memory_of(const at::Tensor& tensor);

// Whether writing all of `whole` writes all of `part`: it has every byte from its first to its last
// in one storage, and these include the part's.
bool covers(const at::Tensor& whole, const at::Tensor& part);

struct Deduplicated {
  NamedTensors tensors;
  Metadata aliases;  // of each name that is left out: the one that is kept
};

// safetensors' rule (bindings/python/py_src/safetensors/torch.py, _remove_duplicate_names): of
// tensors whose memory overlaps, the first name in byte order stays that has its whole storage.
// Where none has, which Python refuses, all stay.
Deduplicated one_name_per_storage(const NamedTensors& tensors);

}  // namespace lockstep::checkpoint

// Files of Python's torch.save, read as data: nothing in them is ever run.
//
//   auto snapshot = pt::read(env, "snapshot.pt");       // {"MODEL_STATE": ..., "EPOCHS_RUN": 3}
//   snapshot->find("MODEL_STATE");  // its tensors are TensorValue; at::Tensor by pt/convert.h
//
// Both forms: the zip archive of torch 1.6 and later (torch/serialization.py, _save and _load;
// caffe2/serialize/inline_container.cc), and the stream before it (_legacy_save, _legacy_load):
// pickles of a magic number, the protocol, the system, the object and the storages' keys, then per
// key an element count and the bytes. Tensors of any device come to the CPU; views keep sharing.
//
// Archives of torch.jit.save, and so of C++'s torch::save, are zips of the same kind: an object's
// attributes become a dict (Dict::object), and code/ is never opened.
//
// Tensors of kinds that are not read are leaves with dtype and shape (TensorLeaf); objects of all
// other classes, whole models of Python too, are leaves with their name (pickle::Opaque). Storages
// that only leaves had are not read. Refused: big-endian files, tars of torch 0.1.9, and all that
// pickle/reader.h refuses. Errors: kBadData with the file's name; kDisk. Threads: any.
#pragma once

#include <cstdint>
#include <string>

#include "base/env.h"
#include "checkpoint/pt/tensor.h"
#include "pickle/value.h"

namespace lockstep::checkpoint::pt {

struct ReadLimits {
  std::uint64_t pickle_bytes = std::uint64_t{64} << 20;
  std::uint64_t inflated_bytes = std::uint64_t{4}
                                 << 30;  // of deflated entries, which no torch writes
  pickle::Limits pickle;
};

// All storages are read into memory.
Result<pickle::Value> read(Env& env, const std::string& path, const ReadLimits& limits = {});
// The same of an open file; errors do not name it.
Result<pickle::Value> parse(ReadableFile& file, const ReadLimits& limits = {});

}  // namespace lockstep::checkpoint::pt

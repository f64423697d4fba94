// Files that Python's torch.load(weights_only=True) opens: the zip form of torch.save, with its
// names (FILE's stem, or "archive", as the folder), 64-byte aligned, protocol 2.
//
//   auto snapshot = Value::dict({{"MODEL_STATE", model}, {"EPOCHS_RUN", 3}});
//   pt::write(env, "snapshot.pt", snapshot);
//
// Two tensors of one Storage are so in Python, too; as there, the whole storage is written. Equal
// values under an equal name give equal bytes. Written to a reserved name beside, synced, renamed.
// Errors: kUsage (a value without a form in Python, a tensor outside of its storage, one storage
// under two dtypes), kDisk. Threads: any.
#pragma once

#include <cstdint>
#include <string>

#include "base/env.h"
#include "checkpoint/pt/tensor.h"

namespace lockstep::checkpoint::pt {

Status write(Env& env, const std::string& path, const pickle::Value& root);
// Into an open file; `folder` without slash, `zip64_from` as ZipWriter's.
Status write_to(File& file, const std::string& folder, const pickle::Value& root,
                std::uint64_t zip64_from = 0xffffffff);

}  // namespace lockstep::checkpoint::pt

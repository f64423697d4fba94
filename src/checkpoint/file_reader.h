// One file of a checkpoint: read, hashed, and compared with what the manifest and the targets say.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/hash.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor.h"

namespace lockstep::checkpoint {

enum class Trouble { kNone, kForeign, kDamaged };  // the graver, the later

struct Verdict {
  Trouble trouble = Trouble::kNone;
  std::string reason;
};

// By its suffix, or its beginning. kDisk: it cannot be read.
Result<bool> is_safetensors(Env& env, const std::string& path);

// `hash`, where given, has seen the bytes before the data.
Result<Header> read_header(ReadableFile& file, Xxh3* hash = nullptr);

// Which names, dtypes and shapes of a file differ from the targets' (the first few, with the
// nearest names of the other side); nullopt: none.
std::optional<std::string> difference(const Header& header, std::span<const NamedTarget> targets);

// Fills the targets by name, in the file's order, and hashes on the way: then no difference() is
// allowed. Without `hash`, what has no target is passed over.
Status read_data(ReadableFile& file, const Header& header, std::span<const NamedTarget> targets,
                 Xxh3* hash = nullptr);

// Whole and as listed? `targets`, where given, are filled; another set of tensors is foreign. Never
// throws.
Verdict examine_file(Env& env, const std::string& path, const FileEntry& entry,
                     const std::vector<NamedTarget>* targets);

}  // namespace lockstep::checkpoint

// A snapshot: the files of a checkpoint as they will lie on storage, in one block of memory that is
// kept for the next one.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/env.h"
#include "checkpoint/store.h"
#include "checkpoint/tensor.h"

namespace lockstep::checkpoint {

// One safetensors file of a checkpoint; the bytes are read while snapshot() runs and not after.
struct Part {
  std::string name;
  std::vector<NamedBytes> tensors;
};

// Page-aligned memory in huge pages where the system has them. Grows; never shrinks.
class Arena {
 public:
  Arena() = default;
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  // Content is lost when it grows; kInternal when memory is short.
  Status reserve(std::size_t bytes);
  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

// Threads: one at a time.
class Image {
 public:
  // Copies everything: one pass at memory speed, no page faults from the second time on.
  Status fill(std::span<const Part> parts, const std::string& state);
  // In the place of the one it was filled with.
  void set_state(std::string state);
  std::span<const FileBytes> files() const { return files_; }
  std::string weights_sha256() const;  // of the part "model"; empty without one

 private:
  Arena arena_;
  std::vector<FileBytes> files_;
  std::vector<NamedBytes> model_;
  std::string state_;
};

}  // namespace lockstep::checkpoint

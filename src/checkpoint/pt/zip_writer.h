// A zip of stored entries whose data start at multiples of 64, as caffe2/serialize/
// inline_container.cc writes them (an extra field "FB" pads), so that torch.load can map them.
// zip64 where sizes or places need it. No times: equal content gives equal bytes.
// Errors: the file's. Threads: one at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"

namespace lockstep::checkpoint::pt {

inline constexpr std::uint64_t kAlignment = 64;

class ZipWriter {
 public:
  // `zip64_from`: sizes and places from here on are written in 64 bits (for tests; at most the
  // default).
  explicit ZipWriter(File& file, std::uint64_t zip64_from = 0xffffffff)
      : file_(file), zip64_from_(zip64_from) {}
  Status add(const std::string& name, std::span<const std::byte> data);
  Status add(const std::string& name, std::string_view text) {
    return add(name, std::as_bytes(std::span(text)));
  }
  Status finish();  // once, after all

  // Of the names and of the CRCs of all entries so far: what tells archives apart.
  std::uint64_t names_hash() const;
  std::uint64_t content_hash() const;

 private:
  struct Entry {
    std::string name;
    std::uint64_t header = 0;
    std::uint64_t size = 0;
    std::uint32_t crc = 0;
  };
  std::string local_header(const Entry& entry) const;
  std::string central_header(const Entry& entry) const;
  std::string end_records(std::uint64_t directory, std::uint64_t bytes) const;
  Status append(std::span<const std::byte> bytes);

  File& file_;
  const std::uint64_t zip64_from_;
  std::uint64_t at_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace lockstep::checkpoint::pt

// Sparse files in tar archives: which parts of a file are stored, the rest being zeros. GNU's own
// entries (type S) and its formats 0.0, 0.1 and 1.0 in pax headers (GNU tar's manual, "Sparse
// Formats").
//
// Errors: kBadData. Threads: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/status.h"

namespace lockstep::data {

struct SparseMap {
  struct Part {
    std::uint64_t at, bytes;
  };
  std::uint64_t size = 0;  // of the whole file
  std::vector<Part> parts;

  Status add(std::uint64_t at, std::uint64_t bytes);  // there is a limit of them
  // Whether they ascend, lie within the file, and are `stored` bytes in all.
  Status check(std::uint64_t stored) const;
};

// What pax headers say of it, record by record.
class PaxSparse {
 public:
  // `key`: without "GNU.sparse.".
  Status take(std::string_view key, std::string_view value);
  const std::optional<std::string>& name() const { return name_; }
  // Format 1.0 has the map before the content: decimal lines, padded to whole blocks.
  bool map_in_content() const { return major_ == 1; }
  // That of the formats 0.0 and 0.1.
  Result<SparseMap> map() const;
  // `next_block`: the next 512 bytes of the content.
  using NextBlock = std::function<Result<std::string_view>()>;
  Result<SparseMap> read_map(const NextBlock& next_block) const;

 private:
  std::optional<std::string> name_;
  std::optional<std::uint64_t> size_;
  std::uint64_t major_ = 0;
  std::vector<std::uint64_t> numbers_;  // offset, bytes, offset, bytes, ...
};

// Puts the zeros between the parts: gets what is stored, in pieces, and gives the file's content.
class SparseContent {
 public:
  using Give = std::function<Status(std::span<const std::byte>)>;
  SparseContent(const SparseMap& map, Give give) : map_(map), give_(std::move(give)) {}
  Status stored(std::span<const std::byte> piece);
  Status end();  // zeros up to the file's end

 private:
  Status zeros_up_to(std::uint64_t at);

  const SparseMap& map_;
  const Give give_;
  std::size_t part_ = 0;
  std::uint64_t in_part_ = 0, written_ = 0;
};

}  // namespace lockstep::data

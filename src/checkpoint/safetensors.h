// The safetensors format (huggingface/safetensors, README "Format"): 8 bytes little-endian header
// length N, N bytes of JSON, data to the end of the file. Reads the header only: no byte of data is
// touched, nothing is allocated beyond the header's size.
//
// The reader refuses: a header above 16 MiB or not starting with '{'; duplicate names or keys;
// unknown keys; other JSON than the format's; shapes that overflow; sizes that do not match; holes,
// overlaps, data outside of the file or not named by the header. A dtype that is not read is
// listed (DType::kOpaque); the size of one that the format does not have is what data_offsets say.
// Errors: kBadData. Threads: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/tensor.h"
#include "lockstep/status.h"

namespace lockstep::checkpoint {

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  // the reference reader's
inline constexpr std::size_t kLengthBytes = 8;

struct Entry {
  TensorInfo info;
  std::uint64_t begin = 0;  // bytes from the start of the data
  std::uint64_t end = 0;
  std::size_t place = 0;  // in the header: a state_dict's order, in our files
};

using Metadata = std::map<std::string, std::string>;

struct Header {
  std::uint64_t data_start = 0;  // bytes from the start of the file
  std::vector<Entry> entries;    // in the data's order, without gaps
  Metadata metadata;
};

// Bytes before the data (8 + N), from the first 8 bytes of a file of `file_bytes`.
Result<std::uint64_t> data_start_of(std::span<const std::byte> start, std::uint64_t file_bytes);
// `start` holds at least data_start_of() bytes.
Result<Header> parse_header(std::span<const std::byte> start, std::uint64_t file_bytes);

struct Layout {
  std::string text;                 // length and header, padded: what the file starts with
  std::vector<Entry> entries;       // in the data's order
  std::vector<std::size_t> source;  // entries[i] is tensor source[i] of those given
  std::uint64_t file_bytes = 0;
};

// The data by descending element size, then name, so that every tensor is aligned to its element;
// it starts at a multiple of 64. The header names the tensors in the order given. kUsage for empty,
// reserved, duplicate or not UTF-8 names and for a header above the limit.
Result<Layout> make_layout(std::span<const TensorInfo> tensors, const Metadata& metadata = {});
// The bytes that Python's safetensors writes (safetensors/src/tensor.rs, prepare): by descending
// dtype in the order of its list, which is DType's, then name; the header in that order, too;
// padded to 8. Its metadata has no order of its own: here that of the keys.
Result<Layout> make_python_layout(std::span<const TensorInfo> tensors, const Metadata& metadata);

}  // namespace lockstep::checkpoint

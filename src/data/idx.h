// IDX, the format of MNIST's files: bytes 0, 0, type, rank; sizes as big-endian 32-bit; values,
// big-endian, row-major. Plain or gzip, told apart by content.
//
// Errors: kBadData that names the file, what was found, what was expected and what to do. Threads:
// values, pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/env.h"
#include "lockstep/status.h"

namespace lockstep::data {

enum class IdxType : std::uint8_t {
  kUInt8 = 0x08,
  kInt8 = 0x09,
  kInt16 = 0x0B,
  kInt32 = 0x0C,
  kFloat32 = 0x0D,
  kFloat64 = 0x0E,
};
std::size_t element_size(IdxType type);  // bytes

struct IdxHeader {
  IdxType type = IdxType::kUInt8;
  std::vector<std::uint32_t> sizes;  // rank 1 to kMaxIdxRank
  std::size_t header_bytes = 0;
  std::uint64_t file_bytes = 0;  // header and values; what the whole file must have
};
inline constexpr std::size_t kMaxIdxRank = 8;
inline constexpr std::uint64_t kMaxIdxBytes = std::uint64_t{1} << 32;

// An IDX file in memory, unpacked.
struct IdxArray {
  IdxHeader header;
  std::string file;  // as unpacked, header included: values are not copied a second time

  // As stored: big-endian. For kUInt8 these are the numbers.
  std::span<const std::uint8_t> values() const {
    return {reinterpret_cast<const std::uint8_t*>(file.data()) + header.header_bytes,
            file.size() - header.header_bytes};
  }
};

// `start` may hold more than the header. `name` is for messages, mostly a path.
Result<IdxHeader> parse_idx_header(std::string_view start, std::string_view name);
// `content`: the file, plain or gzip.
Result<IdxArray> parse_idx(std::string content, std::string_view name,
                           std::uint64_t limit_bytes = kMaxIdxBytes);
Result<IdxArray> read_idx(Env& env, const std::string& path,
                          std::uint64_t limit_bytes = kMaxIdxBytes);

}  // namespace lockstep::data

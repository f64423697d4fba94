#include "data/idx.h"

#include <algorithm>
#include <utility>

#include "data/gzip.h"

namespace lockstep::data {
namespace {

Error bad(std::string_view name, const std::string& what) {
  return {ErrorKind::kBadData, "'" + std::string(name) + "': " + what};
}

std::uint8_t byte_at(std::string_view text, std::size_t i) {
  return static_cast<std::uint8_t>(text[i]);
}

std::uint32_t big_endian(std::string_view text, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value = value << 8 | byte_at(text, at + i);
  return value;
}

std::string hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const char c : bytes) {
    const auto value = static_cast<std::uint8_t>(c);
    out += {kDigits[value >> 4], kDigits[value & 15], ' '};
  }
  if (!out.empty()) out.pop_back();
  return out;
}

std::string shape(const std::vector<std::uint32_t>& sizes) {
  std::string out;
  for (const std::uint32_t size : sizes) out += (out.empty() ? "" : " x ") + std::to_string(size);
  return out;
}

Result<IdxArray> with_size(std::string content, IdxHeader header, std::string_view name) {
  const auto found = static_cast<std::uint64_t>(content.size());
  if (found != header.file_bytes)
    return bad(name, "has " + std::to_string(found) + " bytes, but its header (" +
                         shape(header.sizes) + ") asks for " + std::to_string(header.file_bytes) +
                         ": " + (found < header.file_bytes ? "cut short" : "too long") +
                         "; fetch or copy the file again");
  return IdxArray{std::move(header), std::move(content)};
}

Status check_limit(const IdxHeader& header, std::string_view name, std::uint64_t limit) {
  if (header.file_bytes > limit)
    return bad(name, "its header (" + shape(header.sizes) + ") asks for " +
                         std::to_string(header.file_bytes) + " bytes, limit " +
                         std::to_string(limit));
  return {};
}

}  // namespace

std::size_t element_size(IdxType type) {
  switch (type) {
    case IdxType::kUInt8:
    case IdxType::kInt8:
      return 1;
    case IdxType::kInt16:
      return 2;
    case IdxType::kInt32:
    case IdxType::kFloat32:
      return 4;
    case IdxType::kFloat64:
      return 8;
  }
  return 0;  // not a type of the format
}

Result<IdxHeader> parse_idx_header(std::string_view start, std::string_view name) {
  if (start.size() < 4)
    return bad(
        name,
        "has " + std::to_string(start.size()) +
            " bytes, an IDX file starts with 4 (0, 0, type, rank); fetch or copy the file again");
  IdxHeader header;
  header.type = static_cast<IdxType>(byte_at(start, 2));
  const std::size_t rank = byte_at(start, 3);
  if (start[0] != 0 || start[1] != 0 || element_size(header.type) == 0 || rank == 0 ||
      rank > kMaxIdxRank)
    return bad(
        name,
        "starts with " + hex(start.substr(0, 4)) +
            ", not with an IDX magic (00 00, type 08, 09, 0b, 0c, 0d or 0e, rank 01 to 08; MNIST's "
            "images have 00 00 08 03, its labels 00 00 08 01): not an IDX file");
  header.header_bytes = 4 + 4 * rank;
  if (start.size() < header.header_bytes)
    return bad(name, "has " + std::to_string(start.size()) + " bytes, its header alone needs " +
                         std::to_string(header.header_bytes) +
                         ": cut short; fetch or copy the file again");
  std::uint64_t bytes = element_size(header.type);
  bool overflow = false;
  for (std::size_t i = 0; i < rank; ++i) {
    header.sizes.push_back(big_endian(start, 4 + 4 * i));
    overflow |= __builtin_mul_overflow(bytes, header.sizes.back(), &bytes);
  }
  overflow |= __builtin_add_overflow(bytes, header.header_bytes, &header.file_bytes);
  if (overflow)
    return bad(name, "its header (" + shape(header.sizes) +
                         ") asks for more than 2^64 bytes: damaged; "
                         "fetch or copy the file again");
  return header;
}

Result<IdxArray> parse_idx(std::string content, std::string_view name, std::uint64_t limit_bytes) {
  if (!is_gzip(content)) {
    LOCKSTEP_ASSIGN(IdxHeader header, parse_idx_header(content, name));
    LOCKSTEP_TRY(check_limit(header, name, limit_bytes));
    return with_size(std::move(content), std::move(header), name);
  }
  // The header first: it says how much may come out, so that a small file cannot fill the memory.
  LOCKSTEP_ASSIGN(const std::string start, gunzip_start(content, name, 4 + 4 * kMaxIdxRank));
  LOCKSTEP_ASSIGN(IdxHeader header, parse_idx_header(start, name));
  LOCKSTEP_TRY(check_limit(header, name, limit_bytes));
  LOCKSTEP_ASSIGN(std::string unpacked, gunzip(content, name, header.file_bytes));
  return with_size(std::move(unpacked), std::move(header), name);
}

Result<IdxArray> read_idx(Env& env, const std::string& path, std::uint64_t limit_bytes) {
  LOCKSTEP_ASSIGN(std::string content, env.read(path, limit_bytes));
  return parse_idx(std::move(content), path, limit_bytes);
}

}  // namespace lockstep::data

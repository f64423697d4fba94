// Gzip (RFC 1952) out of memory, by zlib. Bounded: never more than `limit` bytes come out, however
// small the input.
//
// Errors: kBadData with the name given, for damage, a cut, trailing bytes, or more than the limit.
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "lockstep/status.h"

namespace lockstep::data {

bool is_gzip(std::string_view content);  // starts with 1f 8b

// The first `bytes` unpacked bytes, or fewer if the content has no more; the rest is not looked at.
Result<std::string> gunzip_start(std::string_view content, std::string_view name,
                                 std::size_t bytes);

// All of it, members one after another included.
Result<std::string> gunzip(std::string_view content, std::string_view name, std::uint64_t limit);

// No deflate stream unpacks to more than this many times its size (zlib's own bound).
inline constexpr std::uint64_t kMaxInflation = 1032;

}  // namespace lockstep::data

// One HTTP(S) GET into memory, by libcurl, which is loaded when it is first needed.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/status.h"

namespace lockstep::data {

// Bytes so far and in all; 0 in all: not known.
using FetchProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// The body. Follows redirects (at most 5, never from https to http); gives up when connecting takes
// 15 s, or when fewer than 1,000 bytes/s come for 30 s, or after half an hour. Errors: kUnavailable
// for network and status (404, ...), kBadData for a body of more than max_bytes. Threads: any.
Result<std::string> fetch(const std::string& url, std::uint64_t max_bytes,
                          const FetchProgress& progress);

}  // namespace lockstep::data

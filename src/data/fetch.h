// One HTTP(S) GET, by libcurl, which is loaded when it is first needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "data/stopped.h"
#include "lockstep/status.h"

namespace lockstep::data {

// Bytes so far and in all; 0 in all: not known.
using FetchProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;
// Gets the body, piece by piece; its error ends the transfer.
using FetchSink = std::function<Status(std::span<const std::byte> piece)>;

// Follows redirects (at most 5, never from https to http); gives up when connecting takes 15 s, or
// when fewer than 1,000 bytes/s come for 30 s, or after three hours. Errors: kUnavailable for
// network and status (404, ...) and when stopped() says so, kBadData for a body of more than
// max_bytes, the sink's; the sink may have got a part. Threads: any.
Status fetch(const std::string& url, std::uint64_t max_bytes, const FetchSink& sink,
             const FetchProgress& progress = {}, const Stopped& stopped = {});

}  // namespace lockstep::data

// A file's bytes in order, unpacked on the way if they are gzip's (RFC 1952).
//
// Errors: kDisk; kBadData for damage and for a file that is cut off, with its name. Threads: one at
// a time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/env.h"
#include "lockstep/status.h"

namespace lockstep::data {

// Fills `out`, or less at the end.
using Source = std::function<Result<std::size_t>(std::span<std::byte> out)>;

Source plain_source(std::shared_ptr<ReadableFile> file);
// Members one after another included; `packed` is read as it is needed.
Source gunzip_source(Source packed);

}  // namespace lockstep::data

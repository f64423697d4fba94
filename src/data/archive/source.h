// A file's bytes in order, unpacked on the way if they are gzip's (RFC 1952).
//
// Errors: kDisk; kUnavailable if stopped; kBadData for damage and for a file that is cut off, with
// its name. Threads: one at a time.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "base/env.h"
#include "data/stopped.h"
#include "lockstep/status.h"

namespace lockstep::data {

// Fills `out`, or less at the end.
using Source = std::function<Result<std::size_t>(std::span<std::byte> out)>;

Source plain_source(std::shared_ptr<ReadableFile> file);
// Members one after another included; `packed` is read as it is needed.
Source gunzip_source(Source packed);
// kUnavailable from the read on at which stopped() says so; an empty one never does.
Source stoppable(Source from, Stopped stopped);
// What the file holds: unpacked if it begins as gzip's do, as it is if not.
Result<Source> open_source(Env& env, const std::string& path);

}  // namespace lockstep::data

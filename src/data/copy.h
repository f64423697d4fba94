// Copies a file, or all that is in a folder (`lockstep copy`), in the manner of MoXing's
// copy_parallel: several files at a time, what is not there yet.
//
// A file appears by one rename, whole, with its permissions and time of change; one of equal size
// and time is kept as it is. So whatever breaks off, the same call goes on. Links are followed: one
// at the goal stays, and what it leads to is replaced.
// Errors: kUsage for addresses (s3://, obs://), for a folder into itself, and where a device, pipe
// or socket would be replaced; kBadData for what is
// no file or folder, or cannot be read; kUnavailable while another copy into that folder is under
// way; kDisk for what cannot be written: the first is told, after
// which nothing new is begun. Threads: any; it has its own inside.
#pragma once

#include <cstdint>
#include <string>

#include "data/stopped.h"
#include "lockstep/status.h"

namespace lockstep::data {

struct Copied {
  std::uint64_t files = 0, bytes = 0;  // copied now
  std::uint64_t kept = 0;              // files that were there
};

// `to`: the folder, or the file's new name; folders on the way are made. Returns once all is on
// storage; or, soon after stopped() says so (any thread asks), kUnavailable, with whole files alone
// there.
Result<Copied> copy_all(const std::string& from, const std::string& to, unsigned threads = 4,
                        const Stopped& stopped = {});

}  // namespace lockstep::data

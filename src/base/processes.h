// Who has a file open: a walk over /proc. What another user's processes have is not to be seen, and
// is left out.
//
// Threads: any. No deadline of its own: a machine with many processes takes milliseconds.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

struct OpenFile {
  std::string link;  // /proc/PID/fd/N
  std::string info;  // the path of what the kernel says of it: /proc/PID/fdinfo/N, see proc(5)
};

// Up to `most` processes, each with an open file of which `is_it` holds.
std::vector<pid_t> processes_with(const std::function<bool(const OpenFile&)>& is_it,
                                  std::size_t most);

}  // namespace lockstep

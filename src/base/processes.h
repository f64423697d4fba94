// Other processes, by proc(5): what one is doing, and who has a file open. The latter is a walk
// over /proc; what another user's processes have is not to be seen, and is left out.
//
// Threads: any. No deadline of its own: a machine with many processes takes milliseconds.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

struct ProcessStat {
  char state = 0;           // T: stopped; Z: has ended, and its parent has not asked for it
  std::uint64_t start = 0;  // in ticks since the boot: with the pid, the process and no later one
};

// Empty: there is no such process, or this user may not know.
std::optional<ProcessStat> stat_of(pid_t pid);

// Whose parent it is now; none where the kernel does not tell (CONFIG_PROC_CHILDREN).
std::vector<pid_t> children_of(pid_t pid);

struct OpenFile {
  std::string link;  // /proc/PID/fd/N
  std::string info;  // the path of what the kernel says of it: /proc/PID/fdinfo/N, see proc(5)
};

// Up to `most` processes, each with an open file of which `is_it` holds.
std::vector<pid_t> processes_with(const std::function<bool(const OpenFile&)>& is_it,
                                  std::size_t most);

// " (process 1234)": one that has an flock() on the file or folder, by its descriptors; whoever
// called it may be gone, and a copy of it be alive. Empty: none that we may look at.
std::string lock_holder(const std::string& path);

// " (process 1234: python3 serve.py)": one that listens at the TCP port, at whatever address.
// " (a process of user 1000)": it is not to be seen which. Empty: nobody does.
std::string port_listener(int port);

// The same; where nobody listens, one with a connection whose end here has that port, as it says.
std::string port_holder(int port);

}  // namespace lockstep

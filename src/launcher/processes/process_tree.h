// Who was started by whom, found in /proc by system calls alone: for a child of a program that may
// have had threads, where nothing may take a lock. Without /proc nobody is found.
//
// No number is signalled long after it was looked up; repeat what has to be complete, since whoever
// is found may have started others meanwhile.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep::launcher {

// torch_shm_manager: it computes nothing, and unlinks the shared memory of an attempt 2 s after the
// last of its clients has ended. Killed, it would leave that.
bool only_cleans_up(pid_t pid);

// A process, and no later one of its number.
struct KnownProcess {
  pid_t pid = 0;
  std::uint64_t start = 0;  // ProcessStat's
};
bool is_among(std::span<const KnownProcess> processes, pid_t pid);
// It allocates: not for such a child.
std::vector<KnownProcess> known_children_of(pid_t pid);

// SIGKILL to all that `root` has started, and that these have, in whatever group or session; but
// for `spared`, `others` with what they have started, and those that only clean up.
void kill_descendants(pid_t root, pid_t spared, std::span<const KnownProcess> others);

// To all processes of these sessions, each named by its leader, who may be gone: as long as anybody
// is in it the number is no other process's. 0: none. False: nobody is there who could run; a
// zombie cannot, unless its other threads do. Minus a number: that leader has been reaped, maybe
// long ago; where a process has its number now, nobody is signalled for it.
// `signal` 0 only looks.
bool signal_sessions(std::span<const std::atomic<pid_t>> leaders, int signal);

// By which all is found that this process starts with a variable of its own, and that these start,
// in whatever session and whoever their parent is now.
struct Mark {
  std::string variable;             // NAME=value, among those with which they were started
  std::uint64_t since = 0;          // ProcessStat's start of this process: none of them is older
  std::uint64_t control_group = 0;  // its, as a hash; in another one is another job's, or a service
};
// It allocates.
Mark mark_of_this_process(std::string variable);

// To all that have the mark. As above. What a process was started with is read last: that may wait
// for ever where the process is stuck in the kernel.
bool signal_marked(const Mark& mark, int signal);

}  // namespace lockstep::launcher

// Who was started by whom, found in /proc by system calls alone: for a child of a program that may
// have had threads, where nothing may take a lock. Without /proc nobody is found.
//
// No number is signalled long after it was looked up; repeat what has to be complete, since whoever
// is found may have started others meanwhile.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <span>

namespace lockstep::launcher {

// torch_shm_manager: it computes nothing, and unlinks the shared memory of an attempt 2 s after the
// last of its clients has ended. Killed, it would leave that.
bool only_cleans_up(pid_t pid);

// SIGKILL to all that `root` has started, and that these have, in whatever group or session; but
// for `spared` and those that only clean up.
void kill_descendants(pid_t root, pid_t spared);

// To all processes of these sessions, each named by its leader, who may be gone: as long as anybody
// is in it the number is no other process's. 0: none. False: nobody is there.
// `signal` 0 only looks.
bool signal_sessions(std::span<const std::atomic<pid_t>> leaders, int signal);

}  // namespace lockstep::launcher

// The lock of a run directory: flock on the directory itself, so that no lock file is left behind.
// It lasts until the last copy of the descriptor, in whatever process, is closed.
#pragma once

#include <cstdint>
#include <string>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "lockstep/status.h"

namespace lockstep::rundir {

// Makes the directory if there is none: once in a run's life, or a moved one would be lost to it.
// Waits for an earlier run's last process until the deadline; one that has passed means one try.
// Where the file system has no locks nothing keeps another run out, which is warned of.
// Errors: kUnavailable when it stays held, kDisk when the directory cannot be opened, kUsage when
// it holds no run of ours, but something by a name that a run overwrites or removes.
Result<UniqueFd> lock_run_directory(const std::string& path, Deadline deadline);

// A node of a run on several. `run`: drawn at random, the same on all of them.
struct NodeOfRun {
  std::uint64_t run = 0;
  int node = 0;
  std::string host;  // its machine's name
};
// The directory is this node's, until remove_leftovers(): before anything is removed there. A lock
// may be each machine's own where they share a disk, so what keeps the run's other nodes out is a
// name, which only one of them can make. kUsage: another one has it. kDisk.
Status claim_run_directory(const std::string& path, const NodeOfRun& self);
// kUsage: another node of this run has it. For who cannot have the lock.
Status check_claim(const std::string& path, const NodeOfRun& self);

// kDisk where `path` does not lead any more to the directory of `lock`, which lock_run_directory()
// gave, though waited for a moment (base/places.h): asked before anything is made there.
Status check_run_directory(const std::string& path, int lock);
// The directory of `lock`, wherever it is, in this process.
std::string path_through(int lock);
// Where the directory is now: `path` or, if it does not lead there any more, one through `lock`.
std::string place_of(const std::string& path, int lock);

// Removes what bears a reserved name (kReservedPrefix) in the directory and one level below, where
// rooms write their files: something that was being written when its writer was killed. For the
// lock's holder. `keep`: the claim of this run stays. What cannot be removed is warned of.
void remove_leftovers(const std::string& path, const NodeOfRun* keep = nullptr);

}  // namespace lockstep::rundir

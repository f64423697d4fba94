// The lock file by which one of two hosts that have lost each other goes on (--tie-break,
// docs/design/leader.md, rule 11), in a directory that all hosts see. For each set of hosts there
// is one, named by the set's id, and whoever makes it has it for good.
//
//   lockstep-node-ID       of each launcher, as long as it lives: the others see by it that they
//                          have the same directory, it sees that it still has that one
//   lockstep-set-ID        the lock file: a link(2) to the next one
//   lockstep-set-ID-NODE   of each launcher that has asked: where both are one file it has the lock
//                          file, whatever link(2) has said (over NFS its answer may get lost, and
//                          it is made again)
//
// Each has a line for people: who it is. Calls take as long as the file system does, perhaps for
// ever: not on the loop.
//
// Threads: one at a time. Errors: kUsage: it is of no use here, and will not be; else kUnavailable,
// with path and reason.
#pragma once

#include <cstdint>
#include <string>

#include "lockstep/status.h"

namespace lockstep::launcher {

class LockDirectory {
 public:
  // `self`: the launcher's incarnation; `who`: for people.
  LockDirectory(std::string path, std::uint64_t self, std::string who);

  const std::string& path() const { return path_; }

  // The directory is there, and can do what is needed of it. Once, first.
  Status enter();
  // Whether that launcher, which has entered and not left, sees the same directory.
  Result<bool> sees(std::uint64_t other) const;
  // True: this launcher has the set's lock file. False: another one has. The same each time.
  Result<bool> claim(std::uint64_t set);
  // Nobody claims it any more.
  void remove(std::uint64_t set) const;
  // What is this launcher's alone: but not the lock file.
  void leave();

 private:
  std::string in(const std::string& name) const { return path_ + "/" + name; }
  std::string node_file(std::uint64_t node) const;
  std::string lock_file(std::uint64_t set) const;
  std::string claim_file(std::uint64_t set) const;
  Status make(const std::string& path) const;
  Status try_links() const;

  const std::string path_;
  const std::uint64_t self_;
  const std::string who_;
  bool entered_ = false;
  std::uint64_t claimed_ = 0;  // the last one
};

}  // namespace lockstep::launcher

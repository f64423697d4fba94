// Whether workers of an earlier agent of this node still live on this machine: a lock that workers
// inherit. It is the name of an abstract socket, so that nothing of it is left once all who hold it
// have ended, however they have ended; and each network namespace has its own.
//
// Threads: one.
#pragma once

#include <string>

#include "base/unique_fd.h"

namespace lockstep::launcher {

class NodeLock {
 public:
  // `node`: what makes a node the same one when its agent is started again.
  explicit NodeLock(const std::string& node);

  // False: somebody holds it, or it cannot be had; whoever waits tries again.
  bool take();
  bool is_held() const { return static_cast<bool>(socket_); }
  int fd() const { return socket_.get(); }
  // This boot of this machine, its network namespace, and the lock: two agents of which each has
  // held the lock there have not lived at one time.
  std::string machine() const;

 private:
  std::string name_;
  UniqueFd socket_;
};

}  // namespace lockstep::launcher

// The workers' store of a run on several nodes, as the node of rank 0 makes it: new and empty for
// each attempt, at one port as long as the node's addresses stay the same.
//
// Ownership: `loop` must outlive it. Threads: the loop's.
#pragma once

#include <optional>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "launcher/store/master_port.h"
#include "lockstep/status.h"
#include "nodes/words.h"

namespace lockstep::launcher {

class NodeStore {
 public:
  explicit NodeStore(Loop& loop) : loop_(loop) {}

  // kUnavailable: MasterPort::open_on_node().
  Result<nodes::Store> begin(nodes::Attempt attempt, MasterPort::OnNode where);
  bool is_there() const { return port_.has_value(); }
  // A client that has come to the launchers' listener; it is closed where there is no store.
  void adopt(UniqueFd client);

 private:
  Loop& loop_;
  std::optional<MasterPort> port_;
  MasterPort::OnNode where_;  // of port_
};

}  // namespace lockstep::launcher

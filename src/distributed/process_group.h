// What a ProcessGroup has inside; DistributedDataParallel stands on it too.
#pragma once

#include <memory>

#include "base/unique_fd.h"
#include "comm/engine.h"
#include "comm/group.h"
#include "coord/board.h"
#include "coord/table.h"
#include "lockstep/process_group.h"
#include "worker/session.h"

namespace lockstep {

namespace distributed {

struct GroupState {
  worker::Session& session;
  ProcessGroupOptions options;
  UniqueFd run_lock;
  coord::Board board;
  comm::Engine engine;
  coord::Table table;  // of the whole program
  std::unique_ptr<comm::Group> group;

  Deadline deadline() const { return Deadline::in(options.timeout); }
  // The first member of the table that is dead.
  Error peer_lost() const;
};

}  // namespace distributed

distributed::GroupState& state_of(ProcessGroup& group);

}  // namespace lockstep

#include "launcher/nodes/node_store.h"

#include <utility>

namespace lockstep::launcher {

Result<nodes::Store> NodeStore::begin(nodes::Attempt attempt, MasterPort::OnNode where) {
  if (port_ && where == where_) {
    port_->begin_anew();
  } else {
    // Nodes may come back by other addresses of this one.
    port_.reset();
    LOCKSTEP_ASSIGN(port_, MasterPort::open_on_node(where, loop_));
    where_ = std::move(where);
  }
  return nodes::Store{attempt, "", port_->number(), port_->serves_store()};
}

void NodeStore::adopt(UniqueFd client) {
  if (port_) port_->adopt(std::move(client));
}

}  // namespace lockstep::launcher

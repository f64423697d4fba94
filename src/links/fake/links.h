// Links within one thread, for tests: pairs are made without ports, and their streams are relayed,
// with small buffers.
//
// Ownership: `loop` and `timers` must outlive the network, and that the links. Threads: the loop's.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "links/fake/relay.h"
#include "links/links.h"

namespace lockstep::links {

class FakeLinks;

class FakeNetwork {
 public:
  FakeNetwork(Loop& loop, control::Timers& timers) : loop_(loop), timers_(timers) {}

  std::unique_ptr<Links> make(const Party& self, Limits limits, Events& events);
  // Of the pair's stream at the moment; nullptr: it has had none.
  Relay* relay(HostIndex one, HostIndex other) const;

 private:
  friend class FakeLinks;
  static std::pair<HostIndex, HostIndex> key(HostIndex one, HostIndex other) {
    return {std::min(one, other), std::max(one, other)};
  }

  Loop& loop_;
  control::Timers& timers_;
  std::map<HostIndex, FakeLinks*> links_;
  std::map<std::pair<HostIndex, HostIndex>, std::unique_ptr<Relay>> relays_;
};

}  // namespace lockstep::links

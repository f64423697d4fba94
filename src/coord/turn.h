// One call of Coordinator::handle: its time, and what comes of it. Threads: one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "coord/actions.h"

namespace lockstep::coord {

struct Turn {
  std::uint64_t now = 0;  // CLOCK_MONOTONIC, nanoseconds
  Actions actions;

  template <class What>
  void act(What what, std::string reason) {
    actions.push_back({std::move(what), std::move(reason)});
  }
  void print(action::Severity severity, std::string text) {
    act(action::Print{severity, std::move(text)}, "report");
  }
};

}  // namespace lockstep::coord

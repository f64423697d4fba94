// What is at MASTER_ADDR and MASTER_PORT: a store that we serve to plain programs, new and empty
// for each attempt; or nothing, and the port is kept for the workers.
//
// Errors: kUnavailable: the port cannot be had, with who has it as far as that can be seen.
// Threads: the loop's.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "launcher/held_port.h"
#include "launcher/options/options.h"
#include "lockstep/status.h"
#include "store/server.h"

namespace lockstep::launcher {

class MasterPort {
 public:
  // A store is served to plain programs, unless they want to serve it themselves
  // (LaunchOptions::share_store) or MASTER_ADDR is not of this machine. `loop` must outlive it.
  static Result<MasterPort> open(const LaunchOptions& options, bool plain, Loop& loop);

  int number() const { return server_ ? server_->port() : held_->number(); }
  bool serves_store() const { return server_ != nullptr; }
  // For another attempt, none of whose workers has been started yet. At the given port, else at a
  // fresh one. Whoever is connected is not any more.
  void begin_anew();

 private:
  MasterPort(Loop& loop, int given) : loop_(&loop), given_(given) {}
  Result<std::unique_ptr<store::Server>> serve() const;

  Loop* loop_;
  int given_;  // 0: any
  std::vector<std::string> addresses_;
  store::Limits limits_;
  std::unique_ptr<store::Server> server_;
  std::optional<HeldPort> held_;
};

}  // namespace lockstep::launcher

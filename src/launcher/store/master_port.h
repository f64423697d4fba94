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
#include "launcher/options/options.h"
#include "launcher/store/held_port.h"
#include "lockstep/status.h"
#include "store/server.h"

namespace lockstep::launcher {

class MasterPort {
 public:
  // A store is served to plain programs, unless they want to serve it themselves
  // (LaunchOptions::share_store) or MASTER_ADDR is not of this machine. `loop` must outlive it.
  static Result<MasterPort> open(const LaunchOptions& options, bool plain, Loop& loop);

  // On several nodes, for the one of group rank 0.
  struct OnNode {
    // Numeric: where the others reach this node.
    std::vector<std::string> addresses;
    int port = 0;  // that was asked for; 0: any
    // The port of the launchers' own listener on this node, at those addresses; 0: none.
    int control_port = 0;
    bool share_store = true;  // LaunchOptions::share_store
    std::string sign = {};    // by which the store knows the run's machines; "": by nothing
    friend bool operator==(const OnNode&, const OnNode&) = default;
  };
  // Served at its addresses and on the loopback. At the launchers' own port the store has no
  // listener and gets its clients by adopt(); without share_store workers could not listen at that
  // port, and get another one.
  static Result<MasterPort> open_on_node(const OnNode& node, Loop& loop);

  int number() const;
  // A store's client that has come to the launchers' listener; nothing of it has been read. Its
  // connection is closed where that port is not the store's, and at an address that is not.
  void adopt(UniqueFd client);
  bool serves_store() const { return server_ != nullptr; }
  // For another attempt, none of whose workers has been started yet. At the given port, else at a
  // fresh one. Whoever is connected is not any more.
  void begin_anew();

 private:
  MasterPort(Loop& loop, int given) : loop_(&loop), given_(given) {}
  Status hold();
  Status start_serving();
  Result<std::unique_ptr<store::Server>> serve() const;

  Loop* loop_;
  int given_;                           // 0: any
  std::string sign_;                    // OnNode's
  std::vector<std::string> addresses_;  // where a store is served; none: the port is held
  bool adopts_ = false;                 // it has no listener: its clients are adopted
  bool elsewhere_told_ = false;         // that a client has come to another address
  store::Limits limits_;
  std::unique_ptr<store::Server> server_;
  std::optional<HeldPort> held_;
};

}  // namespace lockstep::launcher

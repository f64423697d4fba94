// The link of a host: its loop, which waits for the agent, for other hosts and for its board's
// bell. It may begin before any worker has written the run's plan: until then it obeys, and has no
// streams.
//
// Ownership: what Board names and the bell must outlive it. Errors: kUnavailable, kBadData.
// Threads: one; another waits for the bell.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/futex.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "carrier/bell_watch.h"
#include "carrier/carrier.h"
#include "carrier/messages.h"
#include "control/timers.h"
#include "link/memory.h"
#include "lockstep/status.h"

namespace lockstep::carrier {

class Service {
 public:
  // What it serves.
  struct Board {
    const link::Plan& plan;
    link::Memory& memory;
  };
  struct Plan {
    // Asked at first and after each ring until it is there.
    std::function<std::optional<Board>()> board;
    Doorbell& bell;
    links::Party self;
    links::Limits limits = {};
  };
  // `agent`: a stream socket to the agent. `listener`: where other hosts' links come.
  static Result<std::unique_ptr<Service>> open(Plan plan, UniqueFd agent, UniqueFd listener);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Until the agent has closed its end, or gone. An error: it has said what is no message, or the
  // system refuses what the links need.
  Status run();

 private:
  Service(Plan plan, Loop loop, UniqueFd agent, UniqueFd listener);
  Status begin();
  Status look_for_board();
  void rung();
  void on_agent();
  Status hear();
  void say(const Message& message);
  void tell_working();

  const Plan plan_;
  Loop loop_;
  UniqueFd agent_, listener_;
  std::unique_ptr<control::Timers> timers_;
  std::optional<Obey> obeyed_;        // the newest, as long as there is no
  std::unique_ptr<Carrier> carrier_;  // of the board
  std::unique_ptr<BellWatch> bell_;
  std::string in_;
  std::vector<HostIndex> told_working_;
  bool over_ = false;
  Status status_;
};

}  // namespace lockstep::carrier

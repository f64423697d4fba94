// Whether this node's workers will reach the store of an attempt: one connection to it, before they
// start. What fails there would fail in each of them, minutes later and without a reason.
//
// In PyTorch's protocol, and nothing is left in the store: a PING, and then a COMPARE_SET of a key
// that is not there, which PyTorch's stores answer with what it expects. That one is larger than
// any packet on both ways: a network that loses large packets (MTU) is found by it.
//
// Ownership: destroying a StoreProbe gives up; `loop` and `timers` must outlive it. Threads: the
// loop's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "control/timers.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

class StoreProbe {
 public:
  struct Plan {
    std::string address;  // numeric, as workers get it
    int port = 0;
    std::chrono::milliseconds patience{5'000};  // in all
    // The key that it asks for, by which the store knows the run's machines; "": any.
    std::string sign = {};
  };
  // kUnavailable: the other node, address and port, what has happened, what to do. Called once,
  // from the loop; it may destroy the StoreProbe.
  using Done = std::function<void(const Status&)>;
  static std::unique_ptr<StoreProbe> start(Loop& loop, control::Timers& timers, Plan plan,
                                           Done done);
  ~StoreProbe();
  StoreProbe(const StoreProbe&) = delete;
  StoreProbe& operator=(const StoreProbe&) = delete;

 private:
  enum class Phase { kConnects, kSmall, kLarge };

  StoreProbe(Loop& loop, Plan plan, Done done);
  void begin();
  void connected();
  void ask(Phase phase, std::string question, std::string answer);
  void send();
  void receive();
  void answered();
  void too_late();
  void watch(Loop::Readiness readiness, Loop::Handler handler);
  Status not_connected(int code) const;
  Status no_answer() const;
  Status no_store(const std::string& what) const;
  Status failure(const std::string& what, const char* remedy = "") const;
  void finish(const Status& status);

  Loop& loop_;
  const Plan plan_;
  Done done_;
  UniqueFd socket_;
  control::Timers::Timer beginning_, deadline_;
  Phase phase_ = Phase::kConnects;
  std::string question_, answer_;  // `sent_` bytes of the one, `heard_` of the other are over
  std::size_t sent_ = 0, heard_ = 0;
};

}  // namespace lockstep::launcher

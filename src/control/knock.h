// Whether a machine refuses connections to a port, as it does once nobody holds it any more: that a
// launcher there has ended is known by it at once, and need not be waited for. Nothing is said; who
// listens sees connections that close again.
//
// Ownership: destroying a Knock gives up; `loop` and `timers` must outlive it. Threads: the loop's.
// Errors: none; a connection that cannot be tried says nothing.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "control/address.h"
#include "control/timers.h"

namespace lockstep::control {

class Knock {
 public:
  // `refused` is called at most once, from the loop; it may destroy the Knock. Tried at once, and
  // again after 10 ms, twice that, and so on: the last who holds the port may be about to end.
  // `from`: this machine's end; none: as the kernel chooses.
  static std::unique_ptr<Knock> start(Loop& loop, Timers& timers, const Address& at,
                                      const std::optional<Address>& from,
                                      std::function<void()> refused);
  ~Knock();
  Knock(const Knock&) = delete;
  Knock& operator=(const Knock&) = delete;

 private:
  Knock(Loop& loop, Timers& timers, const Address& at, const std::optional<Address>& from,
        std::function<void()> refused)
      : loop_(loop), timers_(timers), at_(at), from_(from), refused_(std::move(refused)) {}
  void knock();
  int connect();
  void answered(int error);

  Loop& loop_;
  Timers& timers_;
  const Address at_;
  const std::optional<Address> from_;
  const std::function<void()> refused_;
  UniqueFd socket_;
  std::chrono::milliseconds pause_{10};
  Timers::Timer again_;
};

}  // namespace lockstep::control

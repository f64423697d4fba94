// The door of a run whose workers are started by hand: who knocks at its socket, whether it is one
// of ours, and who waits for a place.
//
// Errors: whoever cannot be let in is told why, and the run goes on. Threads: the loop's.
#pragma once

#include <sys/types.h>

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>

#include "base/deadline.h"
#include "base/door.h"
#include "base/ids.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "coord/messages.h"
#include "launcher/by_hand/attached.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

// A process that wants to be the worker of its rank.
struct Arrival {
  UniqueFd control;  // its connection
  UniqueFd process;  // pidfd
  UniqueFd out, err;
  pid_t pid = -1;
  Rank rank;
  Deadline until = Deadline::in({});  // its patience with a place that is about to be free
};

class Arrivals {
 public:
  // Takes it, and then true; false: later, perhaps; or why not.
  using Seat = std::function<Result<bool>(Arrival&)>;

  // `attached` and `loop` must outlive the object.
  static Result<std::unique_ptr<Arrivals>> open(const Attached& attached, Loop& loop, Seat seat);
  ~Arrivals();
  Arrivals(const Arrivals&) = delete;
  Arrivals& operator=(const Arrivals&) = delete;

  // Tries those again that wait for a place; now and then, while anybody waits.
  void look();
  bool anybody_waits() const { return !waiting_.empty() || !unheard_.empty() || door_.rests(); }

 private:
  Arrivals(const Attached& attached, Loop& loop, Seat seat)
      : attached_(attached),
        loop_(loop),
        seat_(std::move(seat)),
        door_(attached.listener.get(), loop, [this](UniqueFd fd) { greet(std::move(fd)); }) {}
  void greet(UniqueFd connection);
  void hear(int fd);
  Result<Arrival> examine(UniqueFd connection);
  Status check(const coord::message::Attach& wish) const;
  bool settle(Arrival& arrival);

  const Attached& attached_;
  Loop& loop_;
  Seat seat_;
  // Has connected, and said nothing yet.
  struct Unheard {
    UniqueFd connection;
    Deadline until;
  };
  std::map<int, Unheard> unheard_;
  std::list<Arrival> waiting_;
  Door door_;
};

}  // namespace lockstep::launcher

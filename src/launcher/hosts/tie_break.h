// Asks for lock files beside the loop: on a thread of its own, which may hang in a call of a file
// system of the network for as long as that likes, and which the launcher's end does not wait for.
//
// A claim has no deadline: a host that has lost the other one may do nothing else. What cannot be
// asked is asked again each second; the user is told.
//
// Ownership: loop and timers outlive it. Threads: the loop's. Errors: open()'s; later ones by
// Around::unfit.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/deadline.h"
#include "base/loop.h"
#include "control/timers.h"
#include "launcher/hosts/lock_directory.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

class TieBreak {
 public:
  struct Around {
    Loop& loop;
    control::Timers& timers;
    std::function<void(std::uint64_t set, bool has)> answered;
    std::function<void(const Error&)> unfit;  // the hosts do not have one directory
  };
  explicit TieBreak(Around around) : around_(std::move(around)) {}
  ~TieBreak();
  TieBreak(const TieBreak&) = delete;
  TieBreak& operator=(const TieBreak&) = delete;

  // Enters it; waits 10 s at most. kUsage where it is of no use, kUnavailable.
  Status open(LockDirectory directory);
  // Once all have met, of each other one its incarnation and what it is called. Before any claim.
  void compare(std::uint64_t other, const std::string& name);
  // The set whose file is wanted, none any more; at each turn. `lost`: the other one, for people.
  void want(std::optional<std::uint64_t> set, const std::string& lost);
  bool waits() const { return wanted_.has_value(); }
  // At the end, 1 s at most: removes what is this launcher's, and that lock file. The same at the
  // object's end, where it has not been called.
  void leave(std::optional<std::uint64_t> unneeded);

 private:
  struct Beside;
  using Then = std::function<void()>;
  using Job = std::function<Then(LockDirectory&)>;  // what it makes is called on the loop

  static void work(Beside& beside);
  void hand_back();
  void ask();
  void take(std::uint64_t set, const Result<bool>& answer);
  void tell();

  const Around around_;
  std::shared_ptr<Beside> beside_;  // the thread's, too
  std::string path_;
  std::optional<std::uint64_t> wanted_;
  std::string lost_, trouble_;
  bool asks_ = false, left_ = false;
  std::chrono::milliseconds tell_in_{};
  Deadline tell_at_ = Deadline::in({});
  control::Timers::Timer again_;
};

}  // namespace lockstep::launcher

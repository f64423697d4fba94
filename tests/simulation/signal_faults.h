// Signals that ask for an end: to the launcher, to one worker, to all of them, to all and the
// launcher in either order; in half of these schedules nothing else happens, and what the run makes
// of it is known. Its draws are its own: the other schedules stay what they are.
#pragma once

#include <cstddef>
#include <cstdint>

#include "simulation/scene.h"

namespace lockstep::simulation {

class SignalFaults {
 public:
  SignalFaults(std::uint64_t seed, Scene& scene);

  bool alone() const { return alone_; }  // no other fault
  void shorten_the_wait();               // for the answer: the runs are short, too
  void plan();
  // Of a run without another fault.
  void check();
  // The run may end by that signal.
  bool explains(int code) const {
    return (scene_.signalled || scene_.agent->stopped_by_workers()) && code == 128 + number_;
  }

 private:
  enum class Whom { kLauncher, kOne, kWorkers, kWorkersFirst, kLauncherFirst };
  void send();

  Scene& scene_;
  const bool any_, alone_;
  Random random_;
  Whom whom_ = Whom::kLauncher;
  int number_ = 0;
  std::uint64_t sent_at_ = 0;
  std::size_t one_of_ = 0;
  bool all_were_members_ = false;  // when the signal came
};

}  // namespace lockstep::simulation

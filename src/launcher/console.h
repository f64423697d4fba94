// Standard output and error of the launcher. Never blocks the agent: what the terminal or pipe does
// not take now is kept, up to a limit; what is lost beyond it is told once there is room again.
#pragma once

#include <string>
#include <string_view>

#include "base/deadline.h"

namespace lockstep::launcher {

class Console {
 public:
  enum Target { kOut = 0, kErr = 1 };
  // Whole lines: those of several workers never tear each other.
  void write(Target target, std::string_view lines);
  // True: nothing is left to write.
  bool flush();
  // Writes until nothing is left or the deadline passes.
  void finish(Deadline deadline);
  bool waiting() const { return !waiting_[0].empty() || !waiting_[1].empty(); }
  // Too much is waiting: whoever feeds us from a pipe should pause.
  bool full() const { return waiting_[0].size() + waiting_[1].size() > kLimit; }

 private:
  static constexpr std::size_t kLimit = std::size_t{1} << 20;
  static constexpr std::size_t kMostWaiting = 4 * kLimit;  // of one target
  bool flush(Target target);
  void tell_lost(Target target);

  std::string waiting_[2];
  std::size_t lost_[2] = {0, 0};  // lines
};

}  // namespace lockstep::launcher

// How a run is getting on, told to people: a bar on a terminal; elsewhere a line, where nothing has
// been printed for a while.
//
// Threads: one at a time. Times are CLOCK_MONOTONIC's, nanoseconds.
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "coord/board.h"
#include "coord/recorder.h"
#include "lockstep/status.h"

namespace lockstep::coord {

struct ProgressMode {
  bool tells = true;
  bool bar = true;                 // on a terminal, in the lines' place
  std::chrono::seconds pause{60};  // before a line
  bool after_silence = true;       // the pause begins with whatever the run prints
};
// "auto"; "off"; or whole seconds from 1 to 86400: a line each time, and no bar. kUsage, blaming
// `name`.
Result<ProgressMode> progress_mode(const std::string& name, const std::string& text);

// As of now.
struct RunView {
  std::uint64_t steps = 0, total_steps = 0;  // committed; of the whole run, 0: not known
  std::uint64_t samples = 0;                 // of those that were seen committed
  double loss = std::nan("");                // mean over the last step's samples
  std::uint64_t ran_ns = 0, limit_ns = 0;    // run time, and its limit; 0: none
  std::size_t workers = 0, incidents = 0;
};

// What the records know of it; workers, incidents and how much there is are the caller's to add.
RunView view_of(const Recorder::Recorded& recorded, const Header& header, std::uint64_t now);

class Progress {
 public:
  struct Sink {
    std::function<std::size_t()> columns;         // of the terminal; 0: there is none
    std::function<void(const std::string&)> bar;  // in the last one's place; empty: takes it away
    std::function<void(const std::string&)> line;
  };
  Progress(ProgressMode mode, Sink sink) : mode_(mode), sink_(std::move(sink)) {}

  // Whether see() has anything to do yet; ten times a second on a terminal, else once.
  bool due(std::uint64_t now) const { return mode_.tells && now >= next_; }
  void see(const RunView& view, std::uint64_t now);
  // The run has printed something itself. The bar is away until that has come to the terminal.
  void printed(std::uint64_t now);
  void end();

  // What is told: "step 120/600  2210 samples/s  ETA 0:01:12  loss 0.2311  3 workers  1 incident".
  std::string text() const;
  // The same behind `[####........]  20 %`, as far as there is room.
  std::string bar(std::size_t columns) const;

 private:
  struct Point {
    std::uint64_t time = 0, steps = 0, samples = 0;
  };
  void remember(const RunView& view, std::uint64_t now);
  double per_second(std::uint64_t Point::*what) const;  // 0: not known
  struct Part {
    std::uint64_t some = 0, all = 0;  // all is 0: not known
  };
  Part done() const;
  double seconds_left() const;  // infinite: not known

  ProgressMode mode_;
  Sink sink_;
  RunView view_;
  std::deque<Point> points_;  // of the last half minute
  std::uint64_t next_ = 0, pause_since_ = 0;
  bool has_bar_ = false;
};

}  // namespace lockstep::coord

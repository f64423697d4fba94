// What would make the loop wait: done on a thread of its own, one job after the other.
//
// A job may hang for as long as a disk likes, and nobody's end waits for that: what it uses it
// holds, or it lives as long as the process.
//
// Threads: the loop's calls everything; jobs run on the other one, with all signals blocked that
// are blocked at the first run(). What a job logs is said on the loop, before its Done. Errors:
// none; where no thread can be started, jobs run at once on the loop's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/deadline.h"
#include "base/loop.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

class Background {
 public:
  using Job = std::function<Status()>;
  using Done = std::function<void(Status)>;

  // `loop` must outlive the object.
  explicit Background(Loop& loop);
  // Leaves the job that is being done to itself; others are dropped, and no Done is called any
  // more.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // `done` is called from the loop with what `job` returned.
  void run(Job job, Done done);
  // How long the thread has been at the job that it does; 0: at none.
  std::chrono::nanoseconds busy_for() const;
  // Until all jobs are done and their Done called; false: the deadline came first.
  bool finish(Deadline deadline);

 private:
  struct Task;
  struct Beside;  // what the thread has, too
  bool start();
  static void work(Beside& beside);
  void hand_back();

  Loop& loop_;
  const std::shared_ptr<Beside> beside_;
  bool started_ = false;
  std::size_t open_ = 0;        // jobs whose Done has not been called
  std::uint64_t begun_ns_ = 0;  // the first of them, as far as the loop knows
};

}  // namespace lockstep::launcher

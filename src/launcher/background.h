// What would make the loop wait: done on a thread of its own, one job after the other.
//
// Threads: the loop's calls everything; jobs run on the other one, with all signals blocked that
// are blocked at the first run(). Errors: none; where no thread can be started, jobs run at once on
// the loop's.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <queue>
#include <thread>

#include "base/deadline.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

class Background {
 public:
  using Job = std::function<Status()>;
  using Done = std::function<void(Status)>;

  // `loop` must outlive the object.
  explicit Background(Loop& loop);
  // Waits for the job that is being done; others are dropped, and no Done is called any more.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  // `done` is called from the loop with what `job` returned.
  void run(Job job, Done done);
  // Until all jobs are done and their Done called; false: the deadline came first.
  bool finish(Deadline deadline);

 private:
  struct Task {
    Job job;
    Done done;
    Status status;
  };
  bool start();
  void work(const std::stop_token& stop);
  void hand_back();

  Loop& loop_;
  UniqueFd finished_;  // an eventfd
  std::mutex mutex_;
  std::condition_variable_any wanted_, idle_;
  bool busy_ = false;
  std::queue<std::unique_ptr<Task>> todo_, done_;
  std::jthread thread_;  // last: it uses all of them
};

}  // namespace lockstep::launcher

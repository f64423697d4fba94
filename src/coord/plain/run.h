// The run's part in a plain run on one host: when an attempt begins and ends, what a failure costs,
// and how the run ends. (On several it is nodes::Leader's.) A pure state machine: the host's
// reports go in, orders come out.
//
//   running → ending → running …   a failure, and a restart is left: all are killed, a new attempt
//   any → stopping → over          a failure without one, or a signal: all are told to end
//   running → over                 all workers have ended with 0
//
// An attempt begins only when the host has said that none of its workers lives. Threads: one at a
// time. Errors: none; a report about an attempt that is over is ignored.
#pragma once

#include <string>
#include <vector>

#include "coord/budget.h"
#include "coord/plain/messages.h"

namespace lockstep::coord::plain {

using Orders = std::vector<Order>;

class Run {
 public:
  Run(int workers, int max_restarts) : workers_(workers), budget_(max_restarts, 0) {}

  Orders start();  // once, first
  Orders handle(const Report& report);

  int restarts() const { return budget_.used(); }
  int max_restarts() const { return budget_.most(); }
  int world_size() const { return workers_; }

 private:
  enum class State { kRunning, kEnding, kStopping, kOver };

  void on(const report::Well& well);
  void on(const report::Failed& failed);
  void on(const report::Gone& gone);
  void on(const report::Signalled& signalled);
  void begin();
  void restart_or_stop(const report::Failed& failed);
  void stop(int code, const std::string& reason, int signal);
  void end(int code, const std::string& reason);

  const int workers_;
  RestartBudget budget_;
  State state_ = State::kRunning;
  int attempt_ = 0;
  int code_ = 0;  // of a stop
  std::string reason_;
  Orders orders_;
};

}  // namespace lockstep::coord::plain

// The run's part in a plain run, once in it however many hosts there are: when an attempt begins
// and ends, what a failure costs, and how the run ends. A pure state machine: reports of hosts go
// in, orders come out.
//
//   running → ending → running …   a failure, and a restart is left: all are killed, a new attempt
//   any → stopping → over          a failure without one, or a signal: all are told to end
//   running → over                 all workers of all hosts have ended with 0
//
// An attempt begins only when every host has said that none of its workers lives. Threads: one at a
// time. Errors: none; a report about an attempt that is over is ignored.
#pragma once

#include <string>
#include <vector>

#include "coord/budget.h"
#include "coord/plain/messages.h"

namespace lockstep::coord::plain {

struct Addressed {
  int host = 0;
  Order order;
};
using Orders = std::vector<Addressed>;

class Run {
 public:
  // `workers`: of each host, in the order of their ranks.
  Run(const std::vector<int>& workers, int max_restarts);

  Orders start();  // once, first
  Orders handle(int host, const Report& report);

  int restarts() const { return budget_.used(); }
  int max_restarts() const { return budget_.most(); }
  int world_size() const { return world_size_; }

 private:
  enum class State { kRunning, kEnding, kStopping, kOver };
  struct Row {
    int workers = 0;
    bool well = false, gone = false;  // in this attempt
  };

  void on(int host, const report::Well& well);
  void on(int host, const report::Failed& failed);
  void on(int host, const report::Gone& gone);
  void on(int host, const report::Signalled& signalled);
  void begin();
  void restart_or_stop(const report::Failed& failed);
  void stop(int code, const std::string& reason, int signal);
  void end(int code, const std::string& reason);
  void tell_all(const Order& order);
  bool all(bool Row::*said) const;

  std::vector<Row> rows_;
  int world_size_ = 0;
  RestartBudget budget_;
  State state_ = State::kRunning;
  int attempt_ = 0;
  int code_ = 0;  // of a stop
  std::string reason_;
  Orders orders_;
};

}  // namespace lockstep::coord::plain

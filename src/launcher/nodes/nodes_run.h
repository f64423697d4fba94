// What a run on several nodes has beside its workers: the launchers' meeting, the words between
// this node and its leader, the store, and what workers are told of their place.
//
//   head (coord/plain/several_hosts.h) ⇄ go_on() ⇄ Leadership: this launcher leads, or another
//
// Ownership: of its sockets; what is in Around outlives it. Threads: the loop's. Errors: open()'s;
// later ones end the run through the head.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/loop.h"
#include "control/timers.h"
#include "coord/plain/several_hosts.h"
#include "launcher/nodes/answers.h"
#include "launcher/nodes/leadership.h"
#include "launcher/nodes/node_lock.h"
#include "launcher/nodes/node_store.h"
#include "launcher/nodes/routes.h"
#include "launcher/options/options.h"
#include "launcher/processes/process.h"
#include "launcher/processes/watcher.h"
#include "launcher/processes/worker_env.h"
#include "launcher/program/program.h"
#include "launcher/reports/failure_report.h"
#include "launcher/store/store_probe.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

class NodesRun {
 public:
  struct Around {
    const LaunchOptions& options;
    Loop& loop;
    std::function<void()> look;  // the head has news to look at: feeds a tick
    // As if the launcher had had this signal; `by`: who asks for it.
    std::function<void(int signal, const std::string& by)> signalled;
    const std::vector<WorkerFailure>& failures;  // of this node's workers, in this attempt
  };
  explicit NodesRun(Around around);
  ~NodesRun();
  NodesRun(const NodesRun&) = delete;
  NodesRun& operator=(const NodesRun&) = delete;

  // The time of all that is told to the head and to nodes/. What a machine was suspended counts:
  // the other nodes have not stood still. But where all are on one machine they have.
  std::uint64_t now() const { return clock_ns(clock_); }

  // Once, before open(); it is used as long as both live.
  std::unique_ptr<coord::Head> make_head(const coord::plain::HostConfig& config);
  // Meets the others, or begins to try.
  Status open();

  // After each turn of the head. True: it has something new to look at.
  bool go_on();
  // What workers of the attempt that starts are told.
  const Place& place() const { return place_; }
  // That workers inherit; -1: none.
  int lock() const { return lock_.fd(); }
  // The watcher's (processes/watcher.h), which is there until end_watch(): where the next worker
  // says who it is; that this child has ended and is about to be reaped; whether it is the watcher.
  std::atomic<pid_t>* free_slot() const { return watcher_ ? watcher_->free_slot() : nullptr; }
  void ended(pid_t child);
  void nothing_is_left() {  // of what its workers have started
    if (watcher_) watcher_->nothing_is_left();
  }
  bool keeps(pid_t child) const { return watcher_ && watcher_->pid() == child; }
  // True: it was the watcher's. One that was killed is followed by another.
  bool watcher_event(const ChildEvent& event);
  // Whether the run has failed because of another node, and the failure of that node's worker, if
  // the node has told it. Valid once the head has ended.
  bool failed_elsewhere() const;
  const std::optional<WorkerFailure>& failure_elsewhere() const { return elsewhere_; }
  bool leads() const { return leadership_ && leadership_->leads(); }
  // The run has ended: says goodbye to all, and waits, 1 s at most, until they have it.
  void leave();
  // Nothing of the workers is left.
  void end_watch() { watcher_.reset(); }

 private:
  nodes::Row row() const;
  Leadership::Around around_leadership();
  void look_for_earlier();
  void tell_twin() const;
  void tell_missing();
  void serve(nodes::Attempt attempt);
  MasterPort::OnNode where_to_serve() const;
  void adopt(UniqueFd client);
  void reach(nodes::Attempt attempt);
  Place find_place();
  // It fails before it has workers. `final`: another attempt would end the same way.
  void fail(const Error& error, bool final);
  std::string own_address() const { return leadership_->own_addresses().front(); }

  // nodes_run_telling.cpp: what others are told.
  void tell_failure(const std::optional<nodes::Final>& final, int rank);
  std::string where() const;
  Error not_reached(const Error& store) const;
  void open_answers();
  star::message::Answer answer(int from, int most) const;
  star::message::Answer stop(const std::string& from);

  const Around around_;
  const clockid_t clock_;
  const control::Party party_;
  NodeLock lock_;
  std::unique_ptr<Watcher> watcher_;
  coord::plain::SeveralHosts* head_ = nullptr;
  std::unique_ptr<control::Timers> timers_;
  std::unique_ptr<Leadership> leadership_;
  std::unique_ptr<Answers> answers_;
  bool failure_told_ = false;  // ours, that the run ends for
  std::optional<WorkerFailure> elsewhere_;
  NodeStore store_;
  nodes::Attempt reaching_ = 0;  // its store, or the last one reached
  std::unique_ptr<StoreProbe> probe_;
  Place place_;
  WorkersInterface interface_;
  std::string interface_of_ = "?";  // this address; before the first look none
  bool started_ = false;            // workers
  bool stranger_told_ = false;
  Deadline tell_missing_at_ = Deadline::in({});
};

}  // namespace lockstep::launcher

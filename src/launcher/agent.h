// Supervises the workers of one run on this node: feeds the coordinator with what happens and does
// what it says. docs/design/launching.md has the life of a worker. One thread; everything that is
// not obeying is in coord/.
//
// Ownership: owns the workers' sockets and logs, the zygote, and by LinkedRun the board's memory
// and the run directory's lock. When run() returns no process, descriptor or socket file of the run
// is left.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "coord/head.h"
#include "launcher/background.h"
#include "launcher/by_hand/arrivals.h"
#include "launcher/by_hand/attached.h"
#include "launcher/hosts/hosts_run.h"
#include "launcher/linked/linked_run.h"
#include "launcher/nodes/nodes_run.h"
#include "launcher/options/options.h"
#include "launcher/output/console.h"
#include "launcher/output/late_reader.h"
#include "launcher/output/logs.h"
#include "launcher/processes/helpers.h"
#include "launcher/processes/spawned.h"
#include "launcher/processes/spawner.h"
#include "launcher/program/program.h"
#include "launcher/reports/error_files.h"
#include "launcher/reports/failure_report.h"
#include "launcher/store/master_port.h"
#include "launcher/terminal_stops.h"
#include "launcher/typed_signals.h"
#include "launcher/workers.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

class Agent {
 public:
  // Errors: kUnavailable, kDisk: what has to be there before the first worker starts.
  static Result<std::unique_ptr<Agent>> open(LaunchOptions options, Program program,
                                             std::optional<Spawned> spawned,
                                             std::optional<Attached> attached);
  ~Agent();
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  // Until the run's end. Returns the launcher's exit code.
  int run();

 private:
  Agent(LaunchOptions options, Program program, std::optional<Spawned> spawned,
        std::optional<Attached> attached, Loop loop);
  LinkedRun::Around around_linked();
  std::unique_ptr<NodesRun> make_nodes();
  std::unique_ptr<HostsRun> make_hosts();
  Place place_of(const coord::action::Spawn& spawn) const;
  Status prepare();  // signals, logs, port, board

  // agent.cpp: the loop.
  std::uint64_t now() const { return nodes_ ? nodes_->now() : monotonic_ns(); }  // the head's
  void feed(coord::Event event);
  Deadline next_wake() const;
  void tick();
  void on_signal();
  void on_typed(int signal);
  void on_children();
  bool keeps(pid_t child) const;
  void end_left();
  void on_spawner(coord::Event event);
  void forget_unstarted(WorkerUid uid);
  void worker_gone(Worker& worker, const ChildEvent& child);
  void bury(Worker& worker, coord::ExitStatus status, bool has_error_file = false);
  std::optional<Console::Target> unread_output() const;
  void give_up_lost_children();
  void kill_worker(Worker& worker, int signal);
  void note_failure(const Worker& worker, const ChildEvent& child);

  // shut_down.cpp: the run's end.
  void shut_down();
  bool signalled() const;
  void tell_missing(const Console::Missing& missing);
  void report_failures();
  void tell_whoever_started_us(std::optional<std::size_t> root) const;
  void end_children();

  // attached_workers.cpp: those that were started by hand.
  Result<bool> seat(Arrival& arrival);
  Status take_in(const coord::action::Spawn& spawn, Arrival& arrival);
  bool close_place(WorkerUid uid);
  void process_ended(WorkerUid uid);
  void watch_attached();
  std::optional<Console::Target> waits_for_reader(const Worker& worker) const;

  // obey.cpp: the coordinator's actions.
  void obey(const coord::Action& action);
  void give_error_file(Worker& worker, const std::string& folder) const;
  void act(const coord::action::Spawn& spawn);
  void act(const coord::action::Kill& kill);
  void act(const coord::action::End& end);
  void act(const coord::action::RestartGroup& restart);
  void act(const coord::action::RestartZygote&);
  void act(const coord::action::Print& print);
  void act(const coord::action::Stop& stop);

  LaunchOptions options_;
  Program program_;
  std::optional<Attached> attached_;
  Loop loop_;
  Console console_;
  LogSink log_sink_;
  std::optional<Logs> logs_;
  std::optional<ErrorFiles> error_files_;  // of plain programs without a log directory
  Spawner spawner_;
  std::unique_ptr<NodesRun> nodes_;  // of a plain program's run on several
  std::unique_ptr<HostsRun> hosts_;  // of a linked program's
  std::unique_ptr<coord::Head> head_;
  std::unique_ptr<LinkedRun> linked_;  // of programs that link Lockstep; plain ones have none
  std::optional<MasterPort> master_;   // of a run on this node alone
  UniqueFd signals_;
  TypedSignals typed_;
  TerminalStops terminal_stops_;
  std::unique_ptr<Arrivals> arrivals_;
  std::map<Rank, coord::action::Spawn> places_;  // open

  Workers workers_;
  Helpers helpers_;
  // Of children whose Forked message has not been read yet.
  std::map<pid_t, ChildEvent> early_exits_;
  std::queue<coord::Event> events_;
  bool feeding_ = false;
  std::optional<int> exit_code_;
  int attempt_ = 0;
  bool ending_attempt_ = false;  // we have begun to stop workers: their exits are no failures
  std::vector<WorkerFailure> failures_;
  std::string errors_told_;  // lines, of this attempt

  Deadline next_look_ = Deadline::in({});  // at workers that were started by hand
  bool starter_gone_ = false;              // told
  Background background_{loop_};           // last: what follows a job uses the others
  LateReader late_reader_{console_, background_};
};

}  // namespace lockstep::launcher

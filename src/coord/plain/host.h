// A host's part in a plain run: starts this host's workers of an attempt, tells them to end and
// kills who does not, and judges their deaths. A pure state machine: events of the agent and orders
// of the run (run.h) go in, actions and reports come out.
//
//   starting → running → ending → starting …   an order to end the attempt: killed at once
//   any → stopping → stopped                   an order, or the launcher's own signal: `signal` to
//                                              all, SIGKILL after the grace
//
// Threads: one at a time. Errors: none; an event about an unknown or dead uid is ignored.
#pragma once

#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "coord/actions.h"
#include "coord/events.h"
#include "coord/plain/messages.h"

namespace lockstep::coord::plain {

// Nanoseconds.
struct Timing {
  std::uint64_t kill_grace = 30'000'000'000;  // --shutdown-timeout: from a stop to SIGKILL
  // From a worker's death by a signal that asks for an end to its being a failure: whoever sent it
  // may be about to send it to the launcher, too.
  std::uint64_t signal_wait = 1'000'000'000;
  // What comes again within this time is the same one: whoever passes a signal on to a process has
  // often sent it to the process's group before (timeout(1)).
  std::uint64_t same_signal = 500'000'000;
};

struct HostConfig {
  int workers = 1;
  bool asked_for_help = false;  // then nothing is said of what is done about failures
  // Those that ask for an end.
  std::vector<int> stop_signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  Timing timing = {};
};

struct Told {
  Actions actions;
  std::vector<Report> reports;
};

class Host {
 public:
  explicit Host(HostConfig config) : config_(std::move(config)) {}

  // Obey the actions before the next call, then send the reports.
  Told handle(const Event& event, std::uint64_t now_ns);
  Told handle(const Order& order, std::uint64_t now_ns);

  // As Head's: both Gone, the answer to End, and the next attempt's workers wait for it.
  bool looks_for_left() const { return unswept_ && processes_.empty() && (ends_ || begins_); }
  void nothing_is_left() { unswept_ = unswept_ && !processes_.empty(); }

  std::string_view state() const;  // as in RunStatus
  // Before this time there is nothing to do unless something comes; at most 1 s after `now_ns`.
  std::uint64_t next_deadline(std::uint64_t now_ns) const;

 private:
  enum class State { kStarting, kRunning, kEnding, kStopping, kStopped };
  struct Process {
    int rank = 0;
    bool forked = false;
    bool killed = false;  // or, if it is not forked, to be
  };

  void on(const event::Forked& forked);
  void on(const event::SpawnFailed& failed);
  void on(const event::Exited& exited);
  void on(const event::Signal& signal);
  template <class Other>
  void on(const Other& /*nothing of a plain worker's*/) {}
  void obey(const order::Begin& begin);
  void obey(const order::End& end);
  void obey(const order::Stop& end);
  void obey(const order::Final& final);

  void begin_turn(std::uint64_t now_ns);
  Told end_turn();
  void fire_timers();
  void kill_late();
  void tell_wait();
  std::string policy_text() const;
  void fail(report::Failed failure);
  void tell_held();
  void stop(const std::string& reason, int signal);
  void kill_all(int signal, const char* why);
  void report_end();
  void spawn();
  bool due(std::optional<std::uint64_t>& at) const;
  template <class Whom>
  std::string names(Whom whom) const;
  std::string worker_name(int rank) const;
  template <class What>
  void act(What what, std::string reason) {
    told_.actions.push_back({std::move(what), std::move(reason)});
  }
  void print(action::Severity severity, std::string text) {
    act(action::Print{severity, std::move(text)}, "report");
  }

  const HostConfig config_;
  State state_ = State::kStarting;
  std::uint64_t now_ = 0;
  order::Begin begun_;                      // the newest; attempt 0: none yet
  std::map<WorkerUid, Process> processes_;  // alive, or asked for
  std::uint64_t last_uid_ = 0;
  bool failed_ = false;    // told, of this attempt
  bool end_told_ = false;  // Well or Gone, the same
  bool ends_ = false;      // by End
  bool begins_ = false;    // its workers are to be started
  bool restarts_ = false;  // not as the first ones
  bool unswept_ = false;   // what workers have started may be left
  bool policy_told_ = false;
  report::Failed held_;                                       // until it is judged
  std::optional<std::uint64_t> judge_at_;                     // when it counts
  std::optional<std::uint64_t> kill_at_;                      // of a stop
  std::optional<std::uint64_t> tell_wait_at_;                 // the same
  std::optional<std::pair<int, std::uint64_t>> last_signal_;  // to the launcher, and when
  Told told_;                                                 // of this turn
};

}  // namespace lockstep::coord::plain

// The keeper of a host in a run of a linked program: its workers from their start to their end,
// who gets no further and is evicted, and the list of deaths of its board. Parts of it are Spawner,
// Standstills and Donor. What the run is to do about it the run keeper says (run_keeper.h).
// A pure state machine: events of the agent and orders go in, actions (into the turn) and reports
// come out. docs/design/membership.md has the rules.
//
// Threads: one at a time. Errors: none; an event about an unknown or dead uid is ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coord/board_view.h"
#include "coord/donor.h"
#include "coord/events.h"
#include "coord/keeper_messages.h"
#include "coord/run_facts.h"
#include "coord/settings.h"
#include "coord/spawner.h"
#include "coord/standstills.h"
#include "coord/turn.h"
#include "coord/worker.h"

namespace lockstep::coord {

class HostKeeper {
 public:
  // All of them outlive it. `stay`: the host's first; of the only host of a run, all zero, for
  // good. A report may come back as an order before it returns.
  HostKeeper(const Config& config, Stay stay, const RunFacts& run, Turn& turn, ToRun to_run);
  HostKeeper(const HostKeeper&) = delete;
  HostKeeper& operator=(const HostKeeper&) = delete;

  // host_keeper.cpp
  void on(const event::Start&);
  void on(const event::Forked&);
  void on(const event::SpawnFailed&);
  void on(const event::Hello&);
  void on(const event::Described&);
  void on(const event::Ready&);
  void on(const event::Stopped&);
  void on(const event::Continued&);
  void on(const event::Progress&);
  void on(const event::Left&);
  void on(const event::Closed&);
  void on(const event::Vitals& report) { standstills_.see(report); }
  void on(const event::Remembered& earlier) { standstills_.remember(earlier); }
  void on(const event::ZygoteReady& zygote) { spawner_.on(zygote); }
  void on(const event::ZygoteLost&);
  // host_ending.cpp
  void on(const event::Failed&);
  void on(const event::Exited&);
  void on(const event::Finished&);

  void obey(std::uint64_t number, const Order& order);
  void tell(const report::Told& told) { say(told); }
  // A round has taken a host out of the tables: it is appended to the board's list of deaths.
  void append(Stay out);

  // host_timers.cpp: does what is due first. False: nothing is.
  bool fire_timer();
  std::uint64_t next_deadline(std::uint64_t until);  // that, or what is due before
  void forget_pause(std::uint64_t gap);  // of the agent's own silence, which nobody could use
  void watch_standstills();              // after the timers

  // What follows from the state as it is now.
  void spawn_missing();
  void choose_donor() { donor_.choose(workers_, proposed_, board_, serves_, turn_); }

  // What it says of its workers; the board is its own.
  HostView view() const;
  const BoardView& board() const { return board_; }
  std::uint64_t obeyed() const { return obeyed_; }  // the number of the last order

 private:
  void obey(const order::Admit&);
  void obey(const order::Refuse&);
  void obey(const order::RecordStop&);
  void obey(const order::Begin&);
  void obey(const order::FirstTable&);
  void obey(const order::Propose&);
  void obey(const order::Shrink&);
  void obey(const order::LetGo&);
  void obey(const order::Serve& serve) { serves_ = serve.others; }
  void obey(const order::Keep&);
  void obey(const order::StopInOrder&);
  void obey(const order::Stop&);
  void obey(const order::Kill&);
  void obey(const order::Finish&);

  template <class Visit>
  void each_timer_of(Worker& worker, Visit visit);
  template <class Visit>
  void each_timer(Visit visit);

  void say(const Report& report);
  const HostFacts& own() const { return run_.hosts[stay_.host]; }
  void note_members(const event::Progress& report);
  bool dead_are_out_of_tables() const;
  void note_slots(const event::Progress& report);
  bool goes_on_without(const Worker* worker) const;
  bool has_stopped(const Worker& worker) const;
  void evict(Worker& worker, Cause cause, std::string text);
  // A death that takes the run's work back or a worker away.
  void report_lost(const Worker& worker, const Death& death);
  void judge_exit(Worker& worker, ExitStatus status);
  report::Outlook outlook(const Worker& worker, Cause cause);
  std::optional<std::vector<std::uint32_t>> shares_of(const Worker& worker) const;

  // host_signals.cpp
  void note_signals();
  int signal_to_all() const;
  void let_go(Worker& worker);

  void record_final();
  void dismiss(Worker& worker, const char* why);
  void kill_all(int signal, const std::string& why);
  void kill_late(std::uint64_t waited, const char* for_what);  // tells whom, and the option
  void tell_stop_wait();

  const Config& config_;
  Stay stay_;
  const RunFacts& run_;
  Turn& turn_;
  ToRun to_run_;
  std::uint64_t reported_ = 0, obeyed_ = 0;

  Workers workers_;
  BoardView board_;
  std::vector<WorkerUid> proposed_;    // as last written, in rank order
  Generation generation_;              // of that
  bool serves_ = false;                // newcomers on other hosts
  std::optional<WorkerUid> finished_;  // who has said so last
  bool final_recorded_ = false, stopped_ = false;
  Spawner spawner_;
  Donor donor_;
  Standstills standstills_;
  std::optional<std::uint64_t> signal_at_;                   // the first that is not answered
  std::optional<std::uint64_t> orderly_until_, term_until_;  // deadlines of a stop
  std::optional<std::uint64_t> tell_stop_wait_at_;           // when it is said who is waited for
};

}  // namespace lockstep::coord

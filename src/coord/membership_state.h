// The inside of the coordinator, shared by membership.cpp (events and timers), joining.cpp (how
// workers come in), attached.cpp (those that come by themselves), recovery.cpp (deaths, rungs 1 and
// 3), signals.cpp (what a signal means) and ending.cpp (stops). Nothing else includes it.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "base/seconds.h"
#include "coord/board_view.h"
#include "coord/budget.h"
#include "coord/crashes.h"
#include "coord/death_news.h"
#include "coord/donor.h"
#include "coord/incident_book.h"
#include "coord/membership.h"
#include "coord/run_clock.h"
#include "coord/run_facts.h"
#include "coord/slots.h"
#include "coord/spawn_tries.h"
#include "coord/standstills.h"
#include "coord/turn.h"
#include "coord/words.h"
#include "coord/worker.h"

namespace lockstep::coord {

// A restart of the group that waits for word whether the launcher is to end.
struct WaitingRestart {
  std::uint64_t since;
  std::string reason;
  bool from_outside;
};

struct Coordinator::State {
  explicit State(const Config& settings);

  Config config;
  Timing timing;
  Turn turn;
  RunFacts facts;

  Workers workers;
  BoardView board;
  std::vector<WorkerUid> order;   // members and ready newcomers, in the rank order of the proposal
  std::optional<Table> proposal;  // as last written
  std::optional<std::uint32_t> scaled_from;  // as many were wanted before; until it is done
  std::uint64_t last_uid = 0, generation = 0;
  std::uint64_t applied = 0;   // transactions applied at best, this board
  std::uint64_t furthest = 0;  // the same, of the run

  SpawnTries spawns;
  Zygote zygote;
  SlotPool slots;
  Donor donor;
  Standstills standstills;
  CrashLedger crashes;
  IncidentBook incidents;
  ReplacementBudget replacements;
  RestartBudget restarts;
  std::optional<std::uint64_t> own_doing_at;  // `furthest` at the last restart by own doing
  bool hopeless = false;                      // one share crashed three owners
  std::optional<std::uint64_t> orphaned_since;

  RunClock clock;

  DeathNews news;
  bool policy_told = false;
  std::string ended_early;  // of a loop of its own: who has ended with 0 while others went on
  std::optional<std::uint64_t> orderly_until, term_until;    // deadlines of a stop
  std::optional<std::uint64_t> stop_wait_told_at;            // when it is said who is waited for
  std::optional<std::pair<int, std::uint64_t>> last_signal;  // to the launcher, and when
  std::optional<std::uint64_t> worker_signal_at;             // the first that is not answered
  std::optional<WaitingRestart> waiting_restart;

  // membership.cpp
  void on(const event::Start&);
  void on(const event::Forked&);
  void on(const event::SpawnFailed&);
  void on(const event::Hello&);
  void on(const event::Described&);
  void on(const event::Ready&);
  void on(const event::Exited&);
  void on(const event::Stopped&);
  void on(const event::Continued&);
  void on(const event::Progress&);
  void on(const event::Scale&);
  void on(const event::Failed&);
  void on(const event::Finished&);
  void on(const event::RecordsFailed&);
  void on(const event::Left&);
  void on(const event::Closed&);
  void on(const event::StarterGone&);
  void on(const event::ZygoteReady&);
  void on(const event::ZygoteLost&);
  void on(const event::Signal&);
  void on(const event::Tick&) {}
  void on(const event::Vitals& report) { standstills.see(report); }
  void on(const event::Remembered& earlier) { standstills.remember(earlier); }
  // Calls visit(time, what to do then) for every timer that runs.
  template <class Visit>
  void each_timer_of(Worker& worker, Visit visit);
  template <class Visit>
  void each_timer(Visit visit);
  void kill_late(std::uint64_t waited, const char* for_what);  // tells whom, and the option
  void fire_timers();
  void forget_pause(std::uint64_t gap);  // of the agent's own silence, which nobody could use
  void settle();                         // what follows from the state as it is now

  // joining.cpp
  void spawn_missing();
  bool holds_seat(const Worker& worker) const;
  void drop_unforked(const char* why);
  bool is_not_needed(const Worker& worker) const;
  void write_first_table();
  void propose();
  void grow_or_shrink(std::uint32_t count);
  void dismiss(Worker& worker, const char* why);
  void dismiss_newcomers();

  // attached.cpp
  bool anybody_has_come() const;
  void on_lost_at_start(const Worker& worker, ExitStatus status);
  void refuse_at_start(Worker& worker, const Error& error);
  std::string missing_ranks() const;
  std::string what_goes_on(bool rejoins) const;

  // recovery.cpp
  void evict(Worker& worker, Cause cause, std::string text);
  // A death that takes the run's work back or a worker away: reported, charged, and mended.
  void on_death(const Worker& worker, const Death& death);
  std::optional<Txn> interrupted_by(const Worker& worker) const;
  bool goes_on_without(const Worker& worker) const;
  void note_crash(const Worker& worker);
  // Returns what then happens, in words.
  std::string replace(const Worker& worker, Cause cause, IncidentBook::Entry& incident);
  void tell_scaled(std::uint32_t members);
  void tell_policy();
  std::string those_left() const;
  void tell_stop_wait();

  void note_progress(const event::Progress& report);
  void check_survivors();
  void keep_leavers();
  bool blame_outside();  // no victim of the newest incident ended by its own doing
  void restart_or_stop(const std::string& reason, bool from_outside);
  void begin_group();

  // signals.cpp
  void note_worker_signals();
  void answer_worker_signals();
  void let_go(Worker& worker);
  void restart_unless_signalled(const std::string& reason, const Death& death);

  // ending.cpp
  void note_stop();  // a table may name the last step
  // At once. Loops over a process group, and what comes behind a run's end, get `signal` and the
  // grace; in all others nothing of a step is worth a wait. `reason` is printed unless `told`: who
  // caused it has said why.
  void stop_now(int code, const std::string& reason, bool told = false, int signal = SIGTERM);
  void stop_by(int signal, const std::string& reason);  // in order
  void kill_all(int signal, const char* why);
  void end_if_empty();

  Worker* find(WorkerUid uid) { return workers.find(uid); }
  std::uint32_t active() const { return workers.active(); }
  std::string name(const Worker& worker) const { return board.name(worker); }

  template <class What>
  void act(What what, std::string reason) {
    turn.act(std::move(what), std::move(reason));
  }
  void print(action::Severity severity, std::string text) { turn.print(severity, std::move(text)); }
};

}  // namespace lockstep::coord

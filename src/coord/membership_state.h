// The inside of the coordinator, shared by membership.cpp (events and timers), joining.cpp (how
// workers come in), attached.cpp (those that come by themselves), recovery.cpp (deaths, rungs 1 and
// 3), standstills.cpp (those that get no further), telling.cpp (what is said of deaths),
// signals.cpp (what a signal means) and ending.cpp (stops). Nothing else includes it.
#pragma once

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "coord/budget.h"
#include "coord/crashes.h"
#include "coord/hang_watch.h"
#include "coord/incident_book.h"
#include "coord/membership.h"
#include "coord/run_clock.h"
#include "coord/slots.h"
#include "coord/words.h"
#include "coord/worker.h"

namespace lockstep::coord {

// In which computation it is, as " while computing …"; empty where it waits, or is between steps.
std::string place_of(const WorkerProgress& seen);

// Of the group. Coordinator::status() has their names, in this order.
enum class Group { kStarting, kRunning, kRestarting, kFinishing, kStopping, kStopped };

// A restart of the group that waits for word whether the launcher is to end.
struct WaitingRestart {
  std::uint64_t since;
  std::string reason;
  bool from_outside;
};

inline constexpr int kMostZygoteLosses = 5;  // without a worker that came out of it

inline constexpr int kMostFailedSpawns = 10;  // the same

// Between two tries of what the system refuses: 50 ms, doubled each time up to 1 s.
class Pause {
 public:
  // False as long as the pause lasts.
  bool over(std::uint64_t now) const { return !until_ || now >= *until_; }
  std::optional<std::uint64_t> until() const { return until_; }
  void begin(std::uint64_t now) {
    until_ = now + length_;
    length_ = std::min<std::uint64_t>(2 * length_, 1'000'000'000);
  }
  void end() { until_.reset(); }

 private:
  std::optional<std::uint64_t> until_;
  std::uint64_t length_ = 50'000'000;
};

struct Coordinator::State {
  explicit State(const Config& settings);

  Config config;
  Timing timing;
  Group group = Group::kStarting;
  std::uint64_t now = 0;
  Actions actions;

  Workers workers;
  std::vector<WorkerUid> order;   // members and ready newcomers, in the rank order of the proposal
  std::vector<WorkerUid> dead;    // this board's list
  std::vector<Table> tables;      // as last seen on the board
  std::optional<Table> proposal;  // as last written
  std::uint32_t wanted = 0;       // workers asked for: at the start, or by the last scale
  std::uint32_t target = 0;       // the same, less those that died and are not replaced
  std::optional<std::uint32_t> scaled_from;  // as many were wanted before; until it is done
  std::uint32_t virtual_workers = 0;         // 0: not yet known
  bool elastic = true;
  std::uint64_t last_uid = 0, generation = 0;
  std::uint64_t group_since = 0;  // start of this (re)start
  std::uint64_t start_told = 0;   // of it: when it had lasted so long, that was said
  WorkerVitals zygote_vitals;
  std::uint64_t vitals_at = 0;  // the last event::Vitals
  std::vector<rundir::Standstill> recorded_standstills;
  std::uint64_t applied = 0;   // transactions applied at best, this board
  std::uint64_t furthest = 0;  // the same, of the run

  Pause spawn_pause;      // since a worker was last ready
  int failed_spawns = 0;  // the same
  SlotPool slots;
  HangWatch hangs;
  CrashLedger crashes;
  IncidentBook incidents;
  ReplacementBudget replacements;
  RestartBudget restarts;
  std::optional<std::uint64_t> own_doing_at;  // `furthest` at the last restart by own doing
  bool hopeless = false;                      // one share crashed three owners
  std::optional<std::uint64_t> orphaned_since;

  bool zygote_ready = false;
  int zygote_losses = 0;  // since a worker last said Hello while one was ready
  Pause zygote_pause;     // the same

  RunClock clock;

  WorkerUid donor{0};
  std::uint64_t heal_request = 0, heal_asked_at = 0, heal_asked_txn = 0;

  int stop_code = 0;
  std::string stop_reason;
  // What a worker said last of its end, and in which transaction: told once.
  std::pair<std::string, Txn> last_failure;
  // Deaths by the workers' own doing, as they are told once the transaction is committed. Until
  // then they may be the program's, and what was to mend them comes to nothing.
  std::vector<std::string> held;
  Txn held_txn;
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
  void on(const event::Vitals&);
  void on(const event::Remembered&);
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
  void name_donor();
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
  // telling.cpp
  void tell_failure(const Worker& worker, const Error& error);
  void tell_death(const Worker& worker, const Death& death, std::optional<Txn> interrupted,
                  const std::string& then);
  void tell_held();
  void tell_scaled(std::uint32_t members);
  void tell_policy();
  std::string those_left() const;
  void tell_stop_wait();
  std::string why_none_is_left(const std::string& otherwise);

  void note_progress(const event::Progress& report);
  void check_survivors();
  void keep_leavers();
  bool blame_outside();  // no victim of the newest incident ended by its own doing
  std::string own_error(const std::string& otherwise);
  void restart_or_stop(const std::string& reason, bool from_outside);
  void begin_group();

  // signals.cpp
  void note_worker_signals();
  void answer_worker_signals();
  void let_go(Worker& worker);
  void restart_unless_signalled(const std::string& reason, const Death& death);

  // standstills.cpp
  std::vector<WorkerUid> awaited() const;
  void watch_standstills(const event::Progress& report);
  void evict_hung();
  void tell_standstills();
  void tell_slow_start();
  std::string not_ready(const Worker& worker) const;

  // ending.cpp
  bool is_stopping() const { return group == Group::kStopping || group == Group::kStopped; }
  bool is_ending() const { return group == Group::kFinishing || is_stopping(); }
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
  // Of a report: the place in the newest table, else the seat.
  Rank rank_of(const Worker& worker) const;
  std::string name(const Worker& worker) const;

  template <class What>
  void act(What what, std::string reason) {
    actions.push_back({std::move(what), std::move(reason)});
  }
  void print(action::Severity severity, std::string text) {
    act(action::Print{severity, std::move(text)}, "report");
  }
};

}  // namespace lockstep::coord

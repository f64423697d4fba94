// The keeper of a run of a linked program: its tables, how many workers it has and is to have, what
// its deaths cost (rungs 1, 3 and 4 of the recovery ladder), its time, and how it ends. The workers
// themselves are the host keeper's (host_keeper.h). A pure state machine: events and reports go in,
// actions (into the turn) and orders come out. docs/design/membership.md has the rules.
//
// Threads: one at a time. Errors: none.
#pragma once

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coord/budget.h"
#include "coord/crashes.h"
#include "coord/death_news.h"
#include "coord/events.h"
#include "coord/incident_book.h"
#include "coord/keeper_messages.h"
#include "coord/run_clock.h"
#include "coord/run_facts.h"
#include "coord/settings.h"
#include "coord/turn.h"
#include "coord/worker.h"

namespace lockstep::coord {

class RunKeeper {
 public:
  // All of them outlive it. `facts`: it alone writes them. `workers`: what the host says of them.
  // An order is obeyed when it returns.
  RunKeeper(const Config& config, RunFacts& facts, const Workers& workers, Turn& turn,
            ToHosts to_hosts);
  RunKeeper(const RunKeeper&) = delete;
  RunKeeper& operator=(const RunKeeper&) = delete;

  void hear(const Report& report);

  // run_keeper.cpp
  void on(const event::Start&) { facts_.since = turn_.now; }
  void on(const event::StarterGone&);
  // run_ending.cpp
  void on(const event::Finished&);
  void on(const event::RecordsFailed&);
  void on(const event::Signal&);
  // run_scaling.cpp
  void on(const event::Scale&);

  // Does what is due first. False: nothing is.
  bool fire_timer();
  std::uint64_t next_deadline(std::uint64_t until);  // that, or what is due before
  void forget_pause(std::uint64_t gap);  // of the agent's own silence, which nobody could use

  // What follows from the state as it is now: before the host starts workers, and after it.
  void look();
  void write_tables();

  std::uint64_t committed() const { return applied_; }  // transactions, of this board
  int replacements_left() { return replacements_.left(furthest_); }

 private:
  void hear(const report::Described&);
  void hear(const report::Ready&);
  void hear(const report::Seen&);
  void hear(const report::Lost&);
  void hear(const report::LetGo&);
  void hear(const report::AllSignalled&);
  void hear(const report::LostAtStart&);
  void hear(const report::LoopEnded&);
  void hear(const report::Failed&);
  void hear(const report::MustEnd&);
  void hear(const report::NoMoreWorkers&);
  void hear(const report::EndedLate&);
  void hear(const report::OutOfTime&);

  template <class Visit>
  void each_timer(Visit visit);

  // run_tables.cpp
  std::vector<const Worker*> at_start() const;
  bool agree(const Worker& first, const Worker& other);
  void write_first_table();
  void propose();
  void tell_policy();
  std::string missing_ranks() const;  // attached
  bool anybody_has_come() const;      // the same

  // run_recovery.cpp
  std::optional<Txn> interrupted_by(const Worker& worker) const;
  std::string replace(bool is_refused, const report::Outlook& next, IncidentBook::Entry& incident);
  void check_survivors();
  void keep_leavers();
  bool blame_outside();  // no victim of the newest incident ended by its own doing
  void restart_or_stop(const std::string& reason, bool from_outside);
  std::string refusal(RestartBudget::Verdict verdict) const;
  void begin_group();

  // run_ending.cpp
  void note_last_step(std::uint64_t step);
  void record(std::vector<Incident> incidents, const std::string& why);
  // At once. Loops over a process group, and what comes behind a run's end, get `signal` and the
  // grace; in all others nothing of a step is worth a wait. `reason` is printed unless `told`: who
  // caused it has said why.
  void stop_now(int code, const std::string& reason, bool told = false, int signal = SIGTERM);
  void stop_by(int signal, const std::string& reason);  // in order
  void end_if_empty();

  // run_scaling.cpp
  std::optional<Error> refuse(std::uint32_t workers) const;
  void tell_scaled(std::uint32_t members);

  // A restart of the group that waits for word whether the launcher is to end.
  struct WaitingRestart {
    std::uint64_t since;
    std::string reason;
    bool from_outside;
  };

  const Config& config_;
  RunFacts& facts_;
  const Workers& workers_;
  Turn& turn_;
  ToHosts to_hosts_;

  std::vector<WorkerUid> order_;   // members and ready newcomers, in the rank order of the proposal
  std::optional<Table> proposal_;  // as last written
  std::uint64_t generation_ = 0;
  std::optional<std::uint32_t> scaled_from_;  // as many were wanted before; until it is done
  bool cannot_grow_ = false;                  // no more workers are started
  std::uint64_t applied_ = 0;                 // transactions applied at best, this board
  std::uint64_t furthest_ = 0;                // the same, of the run
  RunClock clock_;

  CrashLedger crashes_;
  bool hopeless_ = false;  // one share crashed three owners
  IncidentBook incidents_;
  ReplacementBudget replacements_;
  RestartBudget restarts_;
  std::optional<std::uint64_t> own_doing_at_;  // `furthest_` at the last restart by own doing
  std::optional<std::uint64_t> orphaned_since_;
  std::optional<WaitingRestart> waiting_restart_;
  DeathNews news_;
  bool policy_told_ = false;
  std::string ended_early_;  // of a loop of its own: who has ended with 0 while others went on

  std::uint64_t attach_;                                      // Timing's, or what is left of it
  std::optional<std::pair<int, std::uint64_t>> last_signal_;  // to the launcher, and when
};

}  // namespace lockstep::coord

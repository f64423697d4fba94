// The keeper of a run of a linked program: its tables, how many workers it has and is to have, what
// its deaths cost (rungs 1, 3 and 4 of the recovery ladder), its time, and how it ends; of several
// hosts, which are in the tables. The workers themselves are the hosts' keepers' (host_keeper.h). A
// pure state machine: events and reports go in, actions (into the turn) and orders come out.
// docs/design/membership.md has the rules.
//
// Threads: one at a time. Errors: none.
#pragma once

#include <csignal>
#include <cstddef>
#include <cstdint>
#include <functional>
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
#include "coord/messages.h"
#include "coord/run_clock.h"
#include "coord/run_facts.h"
#include "coord/run_hosts.h"
#include "coord/run_state.h"
#include "coord/settings.h"
#include "coord/turn.h"
#include "coord/worker.h"

namespace lockstep::coord {

// A host is to be taken out of the tables, or of the set: a round (link/round_keeper.h).
using TakeOut = std::function<void(Stay host, bool of_set)>;
// A host is to come into the tables as this stay, which has a board and a worker: a round, too.
using Bring = std::function<void(Stay host)>;

class RunKeeper {
 public:
  // All of them outlive it. `workers`: asked for, of each host. `facts`: it alone writes them. A
  // host may hear an order, and answer, before `to_hosts` returns, or later.
  RunKeeper(const Config& config, const std::vector<std::uint32_t>& workers, RunFacts& facts,
            Turn& turn, ToHosts to_hosts, TakeOut take_out = {}, Bring bring = {});
  RunKeeper(const RunKeeper&) = delete;
  RunKeeper& operator=(const RunKeeper&) = delete;

  // What another one has had at `as_of`, by this clock. Then all hosts that are not out are met: as
  // they are, before anything else is heard of them.
  void take_over(const RunState& state, std::uint64_t as_of);
  void meet(std::size_t host, const HostView& view) { take(host, view); }
  void go_on();
  RunState state() const;  // but for the orders

  // What a host reports, and how it is then. What is old, or not the next, is ignored.
  void hear(std::size_t host, const HostView& view, const Report& report);
  // How it is, alone.
  void look_at(std::size_t host, const HostView& view);

  // run_keeper.cpp
  void on(const event::Start&) { began_at_ = turn_.now; }
  void on(const event::StarterGone&);
  // run_scaling.cpp
  void on(const event::Scale&);

  // run_hosts_in_tables.cpp
  // Out of the set, for good. `why`: for people.
  void lose_host(std::size_t host, const std::string& why);
  // A round is over: all that stay have appended these. `any_table`: one of their boards had a
  // table when it answered.
  void taken_out(const std::vector<Stay>& stays, bool any_table);
  // All that stay have answered the round by which these come: so whoever leads next knows of them,
  // and tables may list them.
  void have_come(const std::vector<Stay>& stays);

  // Does what is due first. False: nothing is.
  bool fire_timer();
  std::uint64_t next_deadline(std::uint64_t until);  // that, or what is due before
  void forget_pause(std::uint64_t gap);  // of the agent's own silence, which nobody could use

  // What follows from the state as it is now: before the hosts start workers, and after it.
  void look();
  void write_tables();

  std::uint64_t committed() const { return applied_; }  // transactions, of this board
  // Of that stay a round is still to take it out, or to bring it.
  bool goes(Stay stay) const;
  bool comes(Stay stay) const;
  // All that are not out of the set, as is in force, have the boards that they were told to have:
  // none gives way.
  bool have_boards(const RunFacts& in_force) const;
  int replacements_left() { return replacements_.left(furthest_); }
  std::uint32_t members() const;

 private:
  // Of this host.
  void hear(std::size_t host, const report::Described&);
  void hear(std::size_t host, const report::Ready&);
  void hear(std::size_t host, const report::Seen&);
  void hear(std::size_t host, const report::Lost&);
  void hear(std::size_t host, const report::LetGo&);
  void hear(std::size_t host, const report::Signalled&);
  void hear(std::size_t host, const report::LostAtStart&);
  void hear(std::size_t host, const report::LoopEnded&);
  void hear(std::size_t host, const report::Failed&);
  void hear(std::size_t host, const report::Finished&);
  void hear(std::size_t host, const report::MustEnd&);
  void hear(std::size_t host, const report::NoMoreWorkers&);
  void hear(std::size_t host, const report::EndedLate&);
  void hear(std::size_t host, const report::OutOfTime&);
  void hear(std::size_t host, const report::Told&);
  void hear(std::size_t host, const event::RecordsFailed&);
  void hear(std::size_t host, const event::Signal&);

  void take(std::size_t host, const HostView& view);
  void tell(std::size_t host, const Order& order);
  void tell(const std::vector<HostIndex>& hosts, const Order& order);
  void tell_all(const Order& order);  // but those out of the set
  bool is_several() const { return hosts_.size() > 1; }
  std::string at(std::size_t host) const {  // before what has happened there
    return is_several() ? "node " + std::to_string(host) + ": " : "";
  }
  bool works() const;
  void see_survivors();
  // Whoever is in the first table does, too, before its host has heard of it.
  bool holds_state(const WorkerView& worker) const;
  void note_member(std::size_t host, const WorkerView& worker);
  bool anybody_holds_state(std::size_t host) const;

  template <class Visit>
  void each_timer(Visit visit);

  // run_tables.cpp
  std::vector<const WorkerView*> at_start(std::size_t host) const;
  bool agree(const WorkerView& first, const WorkerView& other);
  using Seats = std::vector<std::vector<const WorkerView*>>;  // of each host, in rank order
  std::optional<Seats> seats();
  void leave_behind(Seats& seats);
  void leave_behind(std::size_t host);
  static std::optional<WorkerView> start_of(const Seats& seats);
  void write_first_table();
  void write_first_table_again();
  void tell_first(const Table& table);
  void add(Table& table, std::size_t host, const std::function<bool(const WorkerView&)>& is_member);
  void propose();
  void tell_policy();
  std::string missing_ranks() const;  // attached
  bool anybody_has_come() const;      // the same

  // run_recovery.cpp
  std::optional<Txn> interrupted_by(const WorkerView& worker) const;
  std::string replace(std::size_t host, bool is_refused, const report::Outlook& next,
                      IncidentBook::Entry& incident);
  void check_survivors();
  bool anybody_holds_state();
  bool newcomer_may_hold_state() const;
  void none_holds_state();
  void give_up();
  void check_orphans();
  void check_orphans(std::size_t host, std::uint64_t applied);
  void keep_leavers();
  bool blame_outside();  // no victim of the newest incident ended by its own doing
  void restart_or_stop(const std::string& reason, bool from_outside);
  std::string refusal(RestartBudget::Verdict verdict) const;
  void begin_group();

  // run_hosts_in_tables.cpp
  Rank rank_of(WorkerUid uid) const;  // in the proposal
  void look_at_hosts();
  bool is_taking_out() const;
  bool has_nobody(std::size_t host) const;
  void take_out(std::size_t host);
  void close(std::size_t host);
  void begin(std::size_t host);
  void bring(std::size_t host);
  void choose_server();

  // run_ending.cpp
  void note_last_step(std::size_t host, std::uint64_t step);
  void finish_if_all_have();
  void record(std::vector<Incident> incidents, const std::string& why);
  // At once. Loops over a process group, and what comes behind a run's end, get `signal` and the
  // grace; in all others nothing of a step is worth a wait. `reason` is printed unless `told`: who
  // caused it has said why.
  std::string unlike(std::size_t host, const event::Described& described) const;
  void stop_now(int code, const std::string& reason, bool told = false, int signal = SIGTERM);
  void stop_by(int signal, const std::string& reason);  // in order
  void check_leavers();
  void give_leavers_up(const std::string& reason);
  void end_if_empty();

  // run_scaling.cpp
  std::optional<Error> refuse(std::uint32_t workers) const;
  std::vector<std::uint32_t> shares(std::uint32_t workers) const;
  void tell_scaled(std::uint32_t members);

  // A restart of the group that waits for word whether the launcher is to end.
  struct WaitingRestart {
    std::uint64_t since;
    std::string reason;
    bool from_outside;
  };

  const Config& config_;
  RunFacts& facts_;
  Turn& turn_;
  ToHosts to_hosts_;
  TakeOut take_out_;
  Bring bring_;

  RunHosts hosts_;
  std::uint64_t ordered_ = 0;             // orders so far
  std::optional<std::uint64_t> program_;  // of the first that was admitted: all have the same
  std::optional<NodeDescription> first_;  // that, where it was admitted here
  std::optional<std::size_t> server_;     // of newcomers on other hosts
  std::optional<Table> proposal_;         // as last written
  std::uint64_t generation_ = 0;
  std::uint64_t began_at_ = 0;                // the start of the group
  std::optional<std::uint32_t> scaled_from_;  // as many were wanted before; until it is done
  std::uint64_t first_txn_ = 0;               // of the group's first table: all boards begin there
  std::uint64_t applied_ = 0;                 // transactions applied at best, this board
  std::uint64_t furthest_ = 0;                // the same, of the run
  RunClock clock_;

  CrashLedger crashes_;
  bool hopeless_ = false;  // one share crashed three owners
  IncidentBook incidents_;
  ReplacementBudget replacements_;
  RestartBudget restarts_;
  std::optional<std::uint64_t> own_doing_at_;  // `furthest_` at the last restart by own doing
  std::optional<WaitingRestart> waiting_restart_;
  std::optional<std::uint64_t> none_since_;  // nobody is known to hold the state
  DeathNews news_;
  bool policy_told_ = false;
  bool has_seen_ = false;    // of several hosts: views have come, and are looked at all at once
  std::string ended_early_;  // of a loop of its own: who has ended with 0 while others went on

  std::uint64_t attach_;  // Timing's, or what is left of it
};

}  // namespace lockstep::coord

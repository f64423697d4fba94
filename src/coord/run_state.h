// All that a run's keeper (run_keeper.h) has and no host tells again: so another agent can go on in
// its place. All agents of the run have it, as their leader has written it last; what stands in it
// is done once a quorum has it (run_lead.h). A value; stamps are by the writer's clock.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "coord/budget.h"
#include "coord/crashes.h"
#include "coord/incident_book.h"
#include "coord/keeper_messages.h"
#include "coord/run_clock.h"
#include "coord/run_facts.h"
#include "coord/table.h"
#include "lockstep/status.h"

namespace lockstep::coord {

// Of a host, beside its HostFacts.
struct HostState {
  std::uint64_t begun = 0;            // the order that gave it a fresh board; 0: its first
  std::vector<WorkerUid> ranks = {};  // members and ready newcomers, in the proposal's rank order
  std::uint64_t stop_known = 0;       // Table::stop_after_step that it has, or is told to record
  bool finished = false;              // a member has committed the run's last transaction
  bool cannot_grow = false;           // no more workers are started
  bool was_member = false;            // of this stay, somebody has held the state
  std::uint64_t dead_applied = 0;     // transactions, by its dead of this stay: its board has these
  bool off_tables = false;            // going or out: no table that counts will have it
  bool comes = false;                 // as this stay, by a round that has begun
  bool has_come = false;              // tables may list the stay: it began with the run, or the
                                      // round was answered by all
};

// One that some of those it went to have not obeyed. Who has is not said, as it would change all
// the time: hosts tell it themselves.
struct GivenOrder {
  std::uint64_t number = 0;  // among all of the run, from 1
  Order order;
  std::vector<HostIndex> to;  // in order
};

struct RunState {
  RunFacts facts;
  std::uint64_t now = 0;  // when this was so
  std::vector<HostState> hosts = {};
  std::uint64_t ordered = 0;            // so many orders so far
  std::vector<GivenOrder> orders = {};  // by their numbers

  std::optional<std::uint64_t> program = {}, server = {};
  std::optional<Table> proposal = {};
  std::uint64_t generation = 0, began_at = 0;
  std::optional<std::uint32_t> scaled_from = {};
  std::uint64_t first = 0;  // transaction, of the group's first table
  std::uint64_t applied = 0, furthest = 0;
  RunClock::Known clock = {};
  CrashLedger::Counts crashes = {};
  bool hopeless = false;
  IncidentBook::Pages incidents = {};
  std::deque<std::uint64_t> replacements = {};  // ReplacementBudget::charges()
  RestartBudget::Used restarts = {};
  std::optional<std::uint64_t> own_doing_at = {};
};

// Of a run that begins now.
RunState first_state(const std::vector<std::uint32_t>& workers, std::uint64_t now);

}  // namespace lockstep::coord

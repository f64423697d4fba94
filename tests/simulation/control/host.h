// What a host of ControlCluster has. For its own files alone.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "cluster.h"
#include "quorum/talk.h"

namespace lockstep::simulation {

// Of an agent that leads.
struct ControlCluster::Leading {
  std::uint64_t term = 0;
  std::vector<link::LeaderTalk> talks;   // by host
  std::optional<coord::RunState> state;  // to be written, or written and not in force
  std::optional<Stamp> written;          // that
  std::vector<coord::Pulse> told;
  std::optional<link::RoundKeeper> keeper;
  std::vector<std::pair<Stay, bool>> to_take_out;
  std::vector<std::pair<Stay, bool>> going;
  bool filled = true, told_end = true, any_table = false;
};

struct ControlCluster::Host {
  std::size_t index = 0;
  bool is_alive = true;
  std::unique_ptr<quorum::Agent> agent;
  quorum::Talk agents;  // with the others'
  std::unique_ptr<coord::Coordinator> coordinator;
  std::optional<link::HostTalk> talk;
  std::optional<link::HostRounds> rounds;
  std::optional<link::Stamp> closed;  // by its link
  std::unique_ptr<SimBoard> board;
  std::optional<Leading> leading;
  std::optional<std::size_t> leader;
  std::uint64_t leads_in = 0;  // that term
  Stamp carrying_out, followed;
  std::string followed_run;
  std::tuple<std::uint64_t, quorum::Role, std::optional<quorum::Member>,
             std::optional<quorum::Member>, Stamp, Stamp, Stamp, bool>
      said;
  bool serves = false, due = false, in_turn = false, wakes = false;
  std::map<WorkerUid, coord::WorkerProgress> workers;
  std::uint64_t applied = 0, wakes_at = 0;

  std::uint64_t words = 0, bytes = 0, allocated = 0;
  double cpu = 0;
};

}  // namespace lockstep::simulation

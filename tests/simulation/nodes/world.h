// A run of a plain program on several simulated machines (machines.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../clock.h"
#include "nodes/leader.h"
#include "nodes/node.h"

namespace lockstep::simulation {

// Mistakes put in on purpose, each of which the oracle must find.
enum class Planted {
  kNone,
  kNoGrace,            // others start at L
  kArrivalForEcho,     // the fence counts from the arrival of the leader's word
  kAttemptToldBefore,  // an attempt is numbered as one that was told already
  kDeadNotAwaited,     // a start without word that nothing lives
  kRankTwice,          // a rank given twice
  kFinalByHalf,        // the leader goes when half of the nodes have Final
  kMovedAtOnce,        // who comes from elsewhere has a lost one's rank before 3 L
  kCauseByArrival,     // a failure is as old as its arrival
  kCauseNotAwaited,    // what is told first is named
  kBudgetTooSmall,     // the run ends although a restart is left
  kRedialIsDeath,      // who dials anew in a silence closes its connection first
  kSleepNotCounted,    // clocks stand still while their machine does
  // Of leaders in turn.
  kNeverYields,  // two that lead go on
  // A leader does not care what others may have told or begun: it ends a run before all are there,
  // and waits for nobody who comes in the place of one long lost.
  kLeadsAsTheFirst,
  kFollowsTheOnly,  // a node ends with its leader, without a look at the next one
};

struct Trouble {
  int nodes = 3;
  int max_restarts = 3;
  double faults_per_second = 0.3;
  std::uint64_t run_for = 40 * kSecond;  // of one attempt's workers
  std::uint64_t faults_until = 120 * kSecond;
  std::uint64_t limit = 3 * kSecond;
  int places = 0;              // where agents may lead; 0: at one endpoint, as it moves
  bool only_leaders = false;   // a leader's machine is lost for good, once, and a spare one comes
  bool only_ends = false;      // the same as the run ends, and none comes
  bool only_moves = false;     // of all faults
  bool only_replaced = false;  // and once
  bool only_failures = false;  // of workers and agents, and connections that break; no word is late
  bool only_silence = false;   // cuts and pauses, each shorter than L and after the last one's end
  Planted planted = Planted::kNone;
};

// What became of it: for tests that count.
struct Outcome {
  std::map<std::string, int> faults;  // that happened, by kind
  std::vector<int> codes;             // of agents that ended by themselves
  nodes::Attempt attempts = 0;
  std::uint64_t took = 0;
  // When the last node was started, and its first attempt; the first leader's machine was lost, and
  // the second attempt began.
  std::uint64_t came_at = 0, began_at = 0, lost_at = 0, again_at = 0;
};

// Throws Violation.
Outcome run_nodes(std::uint64_t seed, const Trouble& trouble);

}  // namespace lockstep::simulation

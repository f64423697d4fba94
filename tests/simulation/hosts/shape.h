// What one schedule of a run on several hosts is made of: the run, the faults that may come to it,
// and mistakes put in on purpose.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coord/board.h"
#include "link/marks.h"

namespace lockstep::simulation {

// The run as it would be without faults.
struct Shape {
  std::vector<std::uint32_t> workers{1, 1, 1};  // of each host
  std::uint32_t virtual_workers = 3;
  std::vector<std::uint32_t> chunks{2, 2};  // of each bucket
  std::uint64_t transactions = 2;
  std::uint64_t ends = 0;   // bit t: transaction t is an evaluation,
  std::uint32_t cells = 1;  // of so many batches
  bool buffers = true, rows = true;
  std::vector<std::size_t> comers;  // these hosts, of one worker each, are in no table at first
  std::size_t depth = 2;            // frames on their way, of each direction
};

// How many of each kind may come.
struct Budget {
  int workers = 1, hosts = 1, breaks = 1, links = 0, cuts = 0, pauses = 0, suspicions = 0;
  int leaders = 0;
  int replacements = 0;  // of dead workers, on their hosts
  int returns = 0;       // hosts, as new stays
};

// Mistakes, each of which the oracle must find.
enum class Planted {
  kNone,
  kTwoLists,     // hosts and workers in lists of their own
  kAppendEarly,  // before the fills are there
  kIndexOrder,   // the dead are appended by index, whatever a board has appended
  kPerBucket,    // nodes are marked by bucket
  kSendToOut,    // to hosts that are out, as to others
  kFillTheOut,   // to hosts that are out of the table, too
  kAnswerEarly,  // before the link has closed its pairs
  kStaleFills,   // of a round before the newest count
  kFillsLost,    // with the pair, when it breaks
  kPairStays,    // closed where a host is out of the table alone
  kXNoHolder,    // what a host holds that is taken out is not counted
  kNoExclusion,  // two landings in one place
  kScope0,       // answers tell what is the dead's by the own list,
  kScope2,       // or by that without the round's; and tables need not come first
  kBase,         // owners by a list without those that are in the round again
  kNoAck,        // whoever is told the fills is taken out
  kReopenAll,    // also pairs to hosts outside the set
  kLinkForgets,  // a link that is started again knows of no round
  kForget,       // a new leader knows what boards have appended, and no more
  kNoGuard,      // tables need not come first
  kComerLate,    // a newcomer's answer is not waited for
  kNoPromise,    // who has voted still hears an older leader
  kStayAgain,    // a host comes back under the name of its last stay
  kUidAgain,     // a replacement has the uid of whom it replaces
  kComerSilent,  // a newcomer without a state tells nothing of what its board has
  kListedEarly,  // a stay is listed before all that stay know of it
};

// Which hosts die whole.
enum class Aim {
  kAnyone,
  kOutrunning,  // a record of theirs is on a board that lacks its table
  kOutOfTable,  // they have lost their workers before
};

struct Trouble {
  Shape shape;
  Budget budget;
  // Hosts elect the leader, which lives on one of them, and a change is in force once a quorum has
  // it; else the leader is outside, immortal, and what it says is in force.
  bool quorum = false;
  double faults = 0.03;  // chance of one at each step
  Aim aim = Aim::kAnyone;
  std::uint32_t tables = coord::kTables, generations = coord::kGenerations;
  Planted planted = Planted::kNone;
};
Trouble draw(std::uint64_t seed);

struct Outcome {
  std::string violation;  // empty: all invariants held
  std::string journal;    // of a violation
  std::map<std::string, std::uint64_t> seen;
  std::uint64_t steps = 0;
};
Outcome run_hosts(std::uint64_t seed, const Trouble& trouble);

class SimPlan : public link::Plan {
 public:
  explicit SimPlan(const Shape& shape);
  const link::Contents& contents(std::uint64_t txn) const override {
    return txn >= transactions_ ? nothing_ : ends_ >> txn & 1 ? evaluation_ : step_;
  }

 private:
  std::uint64_t transactions_, ends_;
  link::Contents nothing_, step_, evaluation_;
};

}  // namespace lockstep::simulation

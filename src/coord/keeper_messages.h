// What the two keepers of a run of a linked program say to each other: the host's (host_keeper.h)
// reports, the run's (run_keeper.h) gives orders; beside these, each host reads RunFacts. Plain
// values, in order.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "coord/table.h"
#include "coord/worker.h"
#include "lockstep/status.h"

namespace lockstep::coord {

namespace report {

// `rank`: that a worker has now, for what is told of it (BoardView::rank_of).

// A worker's program, before its state. Answer: Admit or Refuse.
struct Described {
  WorkerUid uid;
  Rank rank;
  std::uint32_t virtual_workers = 1;
  bool elastic = true;
  std::optional<Error> refusal;
};
// It can take part.
struct Ready {
  WorkerUid uid;
};
// What the board shows has changed.
struct Seen {
  std::uint64_t applied = 0;    // transactions, at best
  std::uint64_t last_step = 0;  // Table::stop_after_step
};
// What can be said of another worker in the place of a lost one.
struct Outlook {
  bool has_room = true;  // on the board's list of deaths
  bool in_vain = false;  // it has ended before it took part
  int failed = 0;        // so many have, one after the other
  bool again = true;     // and the next may fare better
  bool free = false;     // it was only slow: the budget is not charged
};
// A worker is dead; `worker` as it was. `shares`: of its transaction, that it owned, where it ended
// by its own doing.
struct Lost {
  Worker worker;
  Rank rank;
  Death death;
  std::optional<std::vector<std::uint32_t>> shares;
  Outlook outlook;
};
// A signal has come to a member, and not to all: it is told to leave.
struct LetGo {
  Worker worker;
  Rank rank;
  Outlook outlook;
};
// A signal has come to all members.
struct AllSignalled {
  int signal = 0;
};
// Attached: a worker is gone before the first table. `told`: its reason has been.
struct LostAtStart {
  std::string fact;
  bool told = false;
};
// Of a loop of its own, that has come to its end.
struct LoopEnded {
  std::string name;
};
// A worker's own words. `final`: another try would only meet it again. `refused`: it takes no part
// because of it, and the others go on.
struct Failed {
  WorkerUid uid;
  Rank rank;
  Error error;
  bool final = false;
  bool refused = false;
};
// Another try would end the same way: so does the run. `told`: the reason has been.
struct MustEnd {
  int code = 1;
  std::string text;
  bool told = false;
};
// Processes that fork workers end, one after the other: there are no more workers.
struct NoMoreWorkers {
  std::string text;
  bool from_outside = false;
};
// A worker's error after the run's end.
struct EndedLate {
  int code = 1;
};
// The time to leave in order is over.
struct OutOfTime {};

}  // namespace report

using Report =
    std::variant<report::Described, report::Ready, report::Seen, report::Lost, report::LetGo,
                 report::AllSignalled, report::LostAtStart, report::LoopEnded, report::Failed,
                 report::MustEnd, report::NoMoreWorkers, report::EndedLate, report::OutOfTime>;

namespace order {

struct Admit {
  WorkerUid uid;
  bool newcomer = false;
};
struct Refuse {
  WorkerUid uid;
  Error error;
};
// A new start of the group, on a fresh board: none of the old one's workers lives.
struct Begin {};
// The first of a board.
struct FirstTable {
  Table table;
  std::uint64_t ran_ns = 0;
};
struct Propose {
  Table wish;
  std::string reason;
};
// Newcomers that are more than RunFacts::target are dismissed, the newest first.
struct Shrink {};
// A member is to leave after the next table.
struct Leave {
  WorkerUid uid;
};
// One that was to leave is a member again.
struct Stay {
  WorkerUid uid;
};
// The run stops: all that hold the state are to leave after the next table.
struct StopInOrder {};
// It stops at once: by `signal`, and SIGKILL after the grace; none: SIGKILL.
struct Stop {
  std::optional<int> signal;
};
// All, at once.
struct Kill {
  std::string why;
};
// The run has come to its end: members end by themselves, the others are dismissed.
struct Finish {};

}  // namespace order

using Order = std::variant<order::Admit, order::Refuse, order::Begin, order::FirstTable,
                           order::Propose, order::Shrink, order::Leave, order::Stay,
                           order::StopInOrder, order::Stop, order::Kill, order::Finish>;

// Where they go: in one agent, function calls.
using ToRun = std::function<void(const Report&)>;
using ToHosts = std::function<void(const Order&)>;

}  // namespace lockstep::coord

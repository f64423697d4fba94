// What the keepers of a run of a linked program say to each other: each host's (host_keeper.h)
// reports, the run's (run_keeper.h) gives orders; beside these, each host reads RunFacts. Plain
// values that may cross a network:
//
//   reports   come with the host's HostView of that moment, and are numbered there: each is heard
//             once, in order, whoever repeats it. Seen has no number: only the newest counts
//   orders    come in order, none twice; what is not for a host any more it ignores
//   facts     those of an order are there before it
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "coord/actions.h"
#include "coord/events.h"
#include "coord/host_view.h"
#include "coord/table.h"
#include "coord/worker.h"
#include "lockstep/status.h"

namespace lockstep::coord {

namespace report {

// `rank`: that a worker has now, for what is told of it (BoardView::rank_of).

// A worker's program, before its state. Answer: Admit or Refuse.
struct Described {
  event::Described what;
  Rank rank;
};
// It can take part.
struct Ready {
  WorkerUid uid;
};
// What the board shows may have changed: see the HostView.
struct Seen {};
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
  WorkerView worker;
  Rank rank;
  Death death;
  std::optional<std::vector<std::uint32_t>> shares;
  Outlook outlook;
};
// A signal has come to a member, and not to all: it is told to leave.
struct LetGo {
  WorkerView worker;
  Rank rank;
  Outlook outlook;
};
// Signals have come to workers, and by now to whoever else was to get one. Answer: LetGo, or the
// run stops.
struct Signalled {};
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
// A member has committed the run's last transaction, and published its checkpoint.
struct Finished {
  WorkerUid uid;
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
// What is the run's business has come to the launcher of a host that does not lead.
struct Told {
  std::variant<event::Signal, event::RecordsFailed> what;
};

}  // namespace report

using Report =
    std::variant<report::Described, report::Ready, report::Seen, report::Lost, report::LetGo,
                 report::Signalled, report::LostAtStart, report::LoopEnded, report::Failed,
                 report::Finished, report::MustEnd, report::NoMoreWorkers, report::EndedLate,
                 report::OutOfTime, report::Told>;

namespace order {

using action::Admit;
using action::RecordStop;
using action::Refuse;
// A fresh board, and a new stay: none of the old one's workers lives. Of all hosts: the group
// starts again.
struct Begin {};
// The first of a run's boards. The table's first host writes it; the others' links get it.
struct FirstTable {
  Table table;
  std::uint64_t ran_ns = 0;
};
struct Propose {
  Table wish;
  std::string reason;
};
// Of more workers than the host's HostFacts::target newcomers are dismissed, the newest first; then
// the highest ranks leave with the next table.
struct Shrink {};
// Workers to which a signal has come leave.
struct LetGo {};
// Members copy their state for newcomers on other hosts, which wait for it.
struct Serve {
  bool others = false;
};
// One that was to leave is a member again.
struct Keep {
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
// The run has come to its end: it is recorded, members end by themselves, the others are
// dismissed.
struct Finish {};

}  // namespace order

using Order =
    std::variant<order::Admit, order::Refuse, order::RecordStop, order::Begin, order::FirstTable,
                 order::Propose, order::Shrink, order::LetGo, order::Serve, order::Keep,
                 order::StopInOrder, order::Stop, order::Kill, order::Finish>;

// Where they go: in one agent, function calls. Hosts by their index (Stay::host).
using ToRun = std::function<void(const HostView&, const Report&)>;
using ToHosts = std::function<void(const std::vector<HostIndex>& hosts, const Order&)>;

}  // namespace lockstep::coord

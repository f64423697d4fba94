// A host's side of rounds, in its agent (docs/design/hosts.md, "Rounds"): hears what the leader
// says, tells its link, answers, and appends the dead to its board's list once it has its fills.
//
// Threads: one at a time. Errors: none; what is old or not for this host is ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "link/marks.h"
#include "link/pair.h"
#include "link/rounds.h"

namespace lockstep::link {

class HostRounds {
 public:
  // `set`: the hosts of the run's first set.
  HostRounds(Stay self, std::vector<HostIndex> set);

  // The host opens the board of its next stay.
  void enter(Stay self) { self_ = self; }

  // False: older than what it knows.
  bool hear(const Round& round);
  bool hear(const Fills& fills);
  // Promises a term to a new leader, and says what it has heard last: from now on nothing of an
  // older term counts.
  Round vote(std::uint64_t term);
  std::uint64_t promised() const { return promised_; }  // the newest term

  // For the link: before it dials or accepts, and at each change.
  const Orders& orders() const { return orders_; }

  // Once for each round, when the link has closed what the round of this stamp closes: so nothing
  // of those that are being taken out can land any more.
  std::optional<Answer> answer(const Marks& marks, const Plan& plan, const Stamp& closed);

  // Once for each round: the hosts that its board appends now, in this order, before anybody is
  // told. None: there are no fills of the newest round, or not all of them are there.
  struct Append {
    std::vector<Stay> hosts;
    Appended told;
  };
  std::optional<Append> append(const Marks& marks);

 private:
  void order_link();
  bool is_open(HostIndex other) const;

  Stay self_;
  std::uint64_t promised_ = 0;  // term
  Round round_;                 // the newest
  std::optional<Fills> fills_;  // of that round
  bool answered_ = true, appended_ = true;
  Orders orders_;
};

}  // namespace lockstep::link

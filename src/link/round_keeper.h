// The leader's side of rounds (docs/design/hosts.md, "Rounds"): begins them, collects answers,
// tells who fills whom, and knows who is being taken out until all that stay have appended it.
// Whether a change of the set is in force is for others to say.
//
// Threads: one at a time. Errors: none; what is of another round is ignored.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "link/fills.h"
#include "link/marks.h"
#include "link/rounds.h"

namespace lockstep::link {

class RoundKeeper {
 public:
  // Of a run whose first table has these hosts, all of them the set. `plan` must outlive it.
  RoundKeeper(const Plan& plan, std::uint64_t term, std::vector<Stay> hosts);
  // A new leader's, of what the votes for it told (HostRounds::vote): begins a round, even one that
  // names nobody. It names whom the newest of them names; one that only older ones name has been
  // appended nowhere. `hosts` as above. Precondition: there is a vote.
  RoundKeeper(const Plan& plan, std::uint64_t term, std::vector<Stay> hosts,
              const std::vector<Round>& votes);

  // What the leader's board has now: tables that are the same need not be told in the rounds that
  // begin from now on.
  void know(const Marks& marks);

  // Each begins a round.
  // The host comes, or comes back, as a new stay, which has a board: all know of it once the round
  // is answered, and tables may list it from then on. Its last stay is no longer being taken out.
  void join(Stay stay);
  void lose_workers(Stay stay);  // its last worker is dead: out of the tables
  void lose_host(Stay stay);     // its agent is silent, or it is excluded: out of the set

  const Round& round() const { return round_; }  // the newest
  // False: of another round, or not from one that stays.
  bool hear(const Answer& answer);
  bool hear(const Appended& appended);
  // All that stay have answered the newest round.
  bool is_answered() const { return answers_.size() == round_.set.size(); }
  const Answers& answers() const { return answers_; }
  // Once for each round: the change is in force, and all have answered. To be told to each.
  std::vector<Fills> fills() const;

 private:
  void begin();
  bool keep(Answer answer);

  const Plan& plan_;
  using Tables = std::map<std::uint64_t, coord::Table>;  // by content
  Tables knows_, known_;                                 // now; as the round began
  std::set<std::uint64_t> tabled_;  // transactions whose table is in some answer
  std::vector<Stay> hosts_;
  std::vector<Stay> out_of_table_;  // also those of them that are out of the set
  Round round_;
  Answers answers_;
  std::set<HostIndex> appended_;
};

}  // namespace lockstep::link

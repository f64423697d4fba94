// Which shares of a step are computed again, by whom, and whether all of that is there. Rules
// alone: they follow from the step's table, from who is dead, and from what is marked on this board
// (why shares are computed again: participant_rehearsal.cpp, participant_newcomer.cpp).
//
// A step that is whole for one member is so for all of its host, whoever dies from then on: who has
// gone on repeats nothing any more. So what has to be there goes by records, which stay, and never
// by whose a share is by now; who does it goes by that.
//
// Ownership: a view of its arguments. Threads: one. Errors: none.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "coord/ownership.h"

namespace lockstep::transaction {

// Of one share, in this step, on this host's board.
struct ShareMarks {
  bool recorded = false;   // its record is marked; settles the next two
  std::uint64_t rank = 0;  // who made it: index into the table's members
  bool unproved = false;   // a newcomer that had not proved itself
  bool repeated = false;   // it is computed again, on this host
  bool judged = false;     // over several hosts: on one of them, by a member that is proved
};

// Of a step, by virtual worker; empty where the transaction is none.
struct SharesTwice {
  std::vector<bool> here;        // that the host which has made the record repeats
  std::vector<bool> over_hosts;  // that another host does; empty: none
  bool is_over_hosts(std::uint32_t item) const { return !over_hosts.empty() && over_hosts[item]; }
};

class Repeats {
 public:
  // `self`: index of this member.
  Repeats(const coord::Table& table, const coord::Ownership& ownership, std::uint32_t self,
          const SharesTwice& twice, std::function<ShareMarks(std::uint32_t item)> marks)
      : table_(table),
        ownership_(ownership),
        self_(self),
        twice_(twice),
        marks_(std::move(marks)) {}

  // All records are marked: what is to be repeated is there, as far as this host looks at it.
  bool all_done() const;
  // A share is this member's to repeat now. All records are marked, or else only shares are meant
  // of which that is known before.
  bool is_mine(std::uint32_t item, bool all_marked) const;
  bool any_is_mine() const;  // all records are marked
  // It is there, or another host's affair.
  bool done(std::uint32_t item) const { return done(item, marks_(item)); }
  // One of several hosts says for all that it has come to the same.
  bool is_judged(std::uint32_t item) const { return needs_judge(item, marks_(item)); }
  // It is compared by this host's members, with what they have computed again here.
  bool compared_here(std::uint32_t item) const;
  // This host's members that live and have proved themselves, in their order. All records are
  // marked.
  std::vector<std::uint32_t> proved_members() const;

 private:
  bool several_hosts() const { return !table_.hosts.empty(); }
  bool made_here(const ShareMarks& share) const;
  bool done(std::uint32_t item, const ShareMarks& share) const;
  bool needs_judge(std::uint32_t item, const ShareMarks& share) const {
    return several_hosts() && (share.unproved || twice_.is_over_hosts(item));
  }
  bool due(std::uint32_t item, const ShareMarks& share) const {
    return twice_.here[item] || share.unproved || needs_judge(item, share);
  }
  std::uint32_t who(std::uint32_t item, const ShareMarks& share) const;
  std::uint32_t judge(std::uint32_t item) const;
  coord::Stay judging_host(std::uint32_t item) const;
  bool has_proved(coord::Stay host) const;
  std::uint32_t items() const { return static_cast<std::uint32_t>(twice_.here.size()); }

  const coord::Table& table_;
  const coord::Ownership& ownership_;
  std::uint32_t self_;
  const SharesTwice& twice_;
  std::function<ShareMarks(std::uint32_t)> marks_;
};

}  // namespace lockstep::transaction

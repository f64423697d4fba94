#include "transaction/repeats.h"

#include <algorithm>

namespace lockstep::transaction {

// Whether this host's workers repeat the share of themselves. Whose it is by now says nothing: when
// a host dies, some of those that take its shares over may have gone on already.
bool Repeats::made_here(const ShareMarks& share) const {
  if (!several_hosts()) return true;
  return share.rank < table_.members.size() &&
         ownership_.is_here(static_cast<std::uint32_t>(share.rank));
}

// Some shares on several hosts one of them judges: those of newcomers, and one of each host from
// time to time. Other shares each host repeats of its own.
bool Repeats::done(std::uint32_t item, const ShareMarks& share) const {
  if (needs_judge(item, share)) return share.judged;
  return share.repeated || !made_here(share);
}

bool Repeats::compared_here(std::uint32_t item) const {
  if (!twice_.here[item]) return false;
  const ShareMarks share = marks_(item);
  return made_here(share) && !needs_judge(item, share);
}

bool Repeats::all_done() const {
  for (std::uint32_t item = 0; item < items(); ++item) {
    const ShareMarks share = marks_(item);
    if (due(item, share) && !done(item, share)) return false;
  }
  return true;
}

// Before all records are marked nobody knows who is proved. And of a run on several hosts nobody
// begins before the share's own record is marked: its notes go to the host that may have to judge
// it, and so would the claim of who has computed it again here.
bool Repeats::is_mine(std::uint32_t item, bool all_marked) const {
  const ShareMarks share = marks_(item);
  const bool known = all_marked || (!share.unproved && !needs_judge(item, share) &&
                                    (share.recorded || !several_hosts()));
  return known && due(item, share) && !done(item, share) && who(item, share) == self_;
}

bool Repeats::any_is_mine() const {
  for (std::uint32_t item = 0; item < items(); ++item)
    if (is_mine(item, true)) return true;
  return false;
}

// The next live member of the host after the share's owner, whoever has died meanwhile; of another
// host's share: somebody there.
std::uint32_t Repeats::who(std::uint32_t item, const ShareMarks& share) const {
  if (share.unproved || needs_judge(item, share)) return judge(item);
  const std::uint32_t owner = ownership_.owner(item);
  if (!ownership_.is_here(owner)) return owner;
  const auto members = static_cast<std::uint32_t>(table_.members.size());
  const auto may = [&](std::uint32_t m) { return ownership_.is_here(m) && ownership_.alive(m); };
  std::uint32_t next = (owner + 1) % members;
  while (next != owner && !may(next)) next = (next + 1) % members;
  return next;
}

// Each that lives has marked the record of its block's first share.
std::vector<std::uint32_t> Repeats::proved_members() const {
  std::vector<std::uint32_t> proved;
  for (std::uint32_t m = 0; m < table_.members.size(); ++m)
    if (ownership_.is_here(m) && ownership_.alive(m) && ownership_.block_size(m) > 0 &&
        !marks_(ownership_.items_of(m).front()).unproved)
      proved.push_back(m);
  return proved;
}

// Of several hosts, the one whose workers compute such a share again: the next one of which a
// proved worker has computed a share, the share's own last. All boards find the same one, as far
// as they know the same hosts to be lost: it goes by records, and nobody knows of another host's
// workers whether they live.
coord::Stay Repeats::judging_host(std::uint32_t item) const {
  const std::uint32_t own = ownership_.host_of(item);
  const auto count = static_cast<std::uint32_t>(table_.hosts.size());
  for (std::uint32_t i = 1; i <= count; ++i) {
    const coord::Stay stay = table_.hosts[(own + i) % count].stay;
    if (has_proved(stay)) return stay;
  }
  return table_.hosts[own].stay;
}

bool Repeats::has_proved(coord::Stay host) const {
  for (std::uint32_t item = 0; item < items(); ++item) {
    const ShareMarks share = marks_(item);
    if (share.unproved || share.rank >= table_.members.size()) continue;
    const auto member = static_cast<std::uint32_t>(share.rank);
    if (coord::stay_of(table_.members[member].uid) == host &&
        (ownership_.is_here(member) || ownership_.alive(member)))
      return true;
  }
  return false;
}

// Who computes it again: they take turns. Of another host: one of its members. Where
// no proved one is left, the eldest of the others.
std::uint32_t Repeats::judge(std::uint32_t item) const {
  if (several_hosts()) {
    const coord::Stay host = judging_host(item);
    const auto first = std::ranges::find(table_.members, host, [](const coord::Member& member) {
      return coord::stay_of(member.uid);
    });
    const auto index = static_cast<std::uint32_t>(first - table_.members.begin());
    if (!ownership_.is_here(index)) return index;
  }
  const std::vector<std::uint32_t> proved = proved_members();
  if (!proved.empty()) return proved[item % proved.size()];
  for (std::uint32_t m = 0; m < table_.members.size(); ++m)
    if (ownership_.is_here(m) && ownership_.alive(m)) return m;
  return ownership_.owner(item);
}

}  // namespace lockstep::transaction

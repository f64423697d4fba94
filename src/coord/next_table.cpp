#include "coord/next_table.h"

#include <algorithm>

namespace lockstep::coord {

std::vector<Member> joiners(const Table& today, const Table& wish,
                            std::span<const WorkerUid> dead) {
  std::vector<Member> joiners;
  for (const Member& member : wish.members)
    if (!today.has(member.uid) && !is_dead(dead, member.uid)) joiners.push_back(member);
  return joiners;
}

Table next_table(const NextTable& from) {
  // A proposal that is older than today's table: the one behind that is not on this board yet.
  const bool as_wished = from.begins_step && from.wish.generation >= from.today.generation;
  Table next = as_wished ? from.wish : from.today;
  std::erase_if(next.members, [&](const Member& member) {
    return is_dead(from.dead, member.uid) ||
           (!from.today.has(member.uid) &&
            std::ranges::find(from.ready, member) == from.ready.end());
  });
  // Nobody of today's is in it, as all were asked to leave at once: those that live go on.
  if (next.members.empty()) {
    next.members = from.today.members;
    next.hosts = from.today.hosts;
    std::erase_if(next.members,
                  [&](const Member& member) { return is_dead(from.dead, member.uid); });
  }
  next.drop_hosts_without_members();
  next.txn = Txn(from.today.txn.value() + 1);
  next.stop_after_step = from.today.stop_after_step;
  if ((next.flags & kTimeIsUp) != 0 && next.stop_after_step == 0)
    next.stop_after_step = from.last_step;
  next.flags &= ~kTimeIsUp;
  if ((from.today.flags & kMoved) != 0 || next.members != from.today.members) next.flags |= kMoved;
  return next;
}

}  // namespace lockstep::coord

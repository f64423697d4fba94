#include "quorum/set.h"

namespace lockstep::quorum {

bool is_quorum(const Set& set, const Members& who, const Ties& ties) {
  if (2 * who.size() < set.members.size()) return false;  // nobody needs to be counted
  const auto count = static_cast<std::size_t>(std::ranges::count_if(
      set.members, [&who](const Member& member) { return who.contains(member); }));
  if (2 * count != set.members.size()) return 2 * count > set.members.size();
  if (count == 0) return false;
  if (ties.by_file && count == 1) return ties.file == set.id;
  return who.contains(set.members.front());
}

Set changed(const Set& from, const Members& members, std::uint64_t id) {
  Set set{.id = id, .members = {}};
  for (const Member& member : from.members)
    if (members.contains(member)) set.members.push_back(member);
  for (const Member& member : members)
    if (!from.has(member)) set.members.push_back(member);
  return set;
}

}  // namespace lockstep::quorum

#include "coord/fields.h"

#include <algorithm>
#include <string>
#include <vector>

#include "base/errors.h"
#include "coord/board.h"

namespace lockstep::coord {

// Members in their hosts' order, each host with one at least, none twice.
Status check(const Table& table) {
  const auto wrong = [&](const std::string& what) {
    return bad_data("the table of transaction " + std::to_string(table.txn.value()) + " " + what);
  };
  if (table.txn.value() > kMaxTxn) return wrong("is of no transaction");
  if (table.members.empty() || table.members.size() > kMaxMembers)
    return wrong("has " + std::to_string(table.members.size()) + " members, the most are " +
                 std::to_string(kMaxMembers));
  if (table.parts.items > (table.parts.is_step ? kMaxVirtualWorkers : kMaxItems))
    return wrong("says that it has " + std::to_string(table.parts.items) + " items");
  std::vector<Stay> stays;
  std::vector<WorkerUid> uids;
  for (const Member& member : table.members) {
    const Stay stay = stay_of(member.uid);
    if (stays.empty() || stays.back() != stay) stays.push_back(stay);
    if (member.uid == death_of(stay) || member.slot.value() >= kMaxSlots)
      return wrong("has a member that is none");
    uids.push_back(member.uid);
  }
  std::ranges::sort(uids);
  if (std::ranges::adjacent_find(uids) != uids.end()) return wrong("has a member twice");
  const auto same = [](const Stay& stay, const Host& host) {
    return stay == host.stay && host.workers > 0 && host.workers <= kMaxMembers;
  };
  if (!std::ranges::equal(stays, table.hosts, same))
    return wrong("names other hosts than its members are of");
  std::vector<std::uint16_t> hosts(stays.size());
  std::ranges::transform(stays, hosts.begin(), &Stay::host);
  std::ranges::sort(hosts);
  if (std::ranges::adjacent_find(hosts) != hosts.end()) return wrong("has a host twice");
  return {};
}

}  // namespace lockstep::coord

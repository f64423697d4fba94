#include "coord/table.h"

#include <algorithm>

namespace lockstep::coord {

bool Table::has(WorkerUid uid) const {
  return std::any_of(members.begin(), members.end(),
                     [&](const Member& member) { return member.uid == uid; });
}

void Table::drop_hosts_without_members() {
  std::erase_if(hosts, [this](const Host& host) {
    return std::none_of(members.begin(), members.end(),
                        [&](const Member& member) { return stay_of(member.uid) == host.stay; });
  });
}

bool is_dead(std::span<const WorkerUid> deaths, WorkerUid uid) {
  return std::any_of(deaths.begin(), deaths.end(), [uid](WorkerUid death) {
    return death == uid || death == death_of(stay_of(uid));
  });
}

}  // namespace lockstep::coord

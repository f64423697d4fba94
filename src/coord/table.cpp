#include "coord/table.h"

#include <algorithm>

namespace lockstep::coord {

bool Table::has(WorkerUid uid) const {
  return std::any_of(members.begin(), members.end(),
                     [&](const Member& member) { return member.uid == uid; });
}

bool is_dead(std::span<const WorkerUid> deaths, WorkerUid uid) {
  return std::any_of(deaths.begin(), deaths.end(), [uid](WorkerUid death) {
    return death == uid || death == death_of(stay_of(uid));
  });
}

}  // namespace lockstep::coord

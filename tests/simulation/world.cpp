#include "simulation/world.h"

namespace lockstep::simulation {

std::uint64_t Plan::apply(std::uint64_t state, const std::array<std::uint64_t, kChunks>& chunks) {
  for (const std::uint64_t chunk : chunks) state = mix(state, chunk);
  return state;
}

std::vector<std::uint64_t> Plan::reference() const {
  std::vector<std::uint64_t> states{42};
  for (std::uint64_t txn = 0; txn < transactions; ++txn) {
    std::uint64_t sum = 0;
    for (std::uint32_t v = 0; v < virtual_workers; ++v)
      sum = mix(sum, share(states.back(), txn, v));
    std::array<std::uint64_t, kChunks> chunks{};
    for (std::uint32_t c = 0; c < kChunks; ++c) chunks[c] = chunk(sum, c);
    states.push_back(apply(states.back(), chunks));
  }
  return states;
}

void check_members(const std::vector<coord::Member>& members) {
  std::set<std::uint64_t> uids;
  std::set<std::uint32_t> slots;
  for (const coord::Member& member : members) {
    require(uids.insert(member.uid.value()).second, "a worker has two ranks in one table");
    require(slots.insert(member.slot.value()).second, "two members of one table share a slot");
  }
  require(!members.empty() && members.size() <= coord::kMaxWorkers,
          "a table has no member, or too many");
}

}  // namespace lockstep::simulation

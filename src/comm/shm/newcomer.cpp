#include "comm/shm/newcomer.h"

#include <algorithm>

namespace lockstep::comm::shm {

Exchange::Newcomer newcomer_of(const coord::Member& member, coord::Stay here,
                               const coord::Table& today, const coord::Board& board,
                               const Layout& layout, std::byte* data, std::uint32_t hosts) {
  const auto at = [data](std::uint64_t offset) {
    return reinterpret_cast<coord::Word*>(data + offset)->load(std::memory_order_acquire);
  };
  const std::uint32_t slot = member.slot.value();
  const coord::Stay stay = coord::stay_of(member.uid);
  if (slot >= coord::kMaxSlots) return {};
  if (stay == here)
    return {at(layout.heal_mark()),
            board.slot(member.slot).ready_txn.load(std::memory_order_acquire)};
  if (hosts == 1 || stay.host >= hosts) return {};
  const std::uint64_t place = layout.ready_mark(stay.host, slot), ready = at(place);
  const bool is_its = at(place + sizeof(coord::Word)) == member.uid.value();
  std::uint64_t copied = at(layout.loading_mark(stay.host));
  if (std::ranges::find(today.hosts, stay, &coord::Host::stay) == today.hosts.end()) {
    copied = std::max(copied, at(layout.heal_mark()));
    for (std::uint32_t host = 0; host < hosts; ++host)
      if (host != here.host) copied = std::max(copied, at(layout.loading_mark(host)));
  }
  return {copied, is_its ? ready : 0};
}

}  // namespace lockstep::comm::shm

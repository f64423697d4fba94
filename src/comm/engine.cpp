#include "comm/engine.h"

#include <algorithm>
#include <cassert>

namespace lockstep::comm {

std::unique_ptr<Group> Engine::make_group(const coord::Table& table) {
  assert(next_ == 0);
  next_ = shm_group_bytes();
  return make_shm_group(board_, board_.data(), table, uid_);
}

std::unique_ptr<Exchange> Engine::make_exchange(ExchangePlan plan) {
  plan.board_bytes = board_bytes_;
  plan.hosts = static_cast<std::uint32_t>(
      std::max<std::uint64_t>(board_.header().hosts.load(std::memory_order_acquire), 1));
  plan.offset = next_;
  std::unique_ptr<Exchange> exchange = make_shm_exchange(board_, slot_, uid_, plan);
  next_ = exchange->end();
  return exchange;
}

}  // namespace lockstep::comm

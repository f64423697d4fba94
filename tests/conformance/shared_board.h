// A board of one's own in anonymous shared memory, just long enough for a plan; inherited by forked
// children.
#pragma once

#include <sys/mman.h>

#include <cstdint>
#include <stdexcept>

#include "comm/group.h"
#include "comm/shm/layout.h"
#include "coord/board.h"

namespace lockstep::conformance {

class SharedBoard {
 public:
  explicit SharedBoard(const comm::ExchangePlan& plan) : plan_{plan.virtual_workers, 0, 64} {
    const coord::Board unmapped(nullptr, plan_);
    const auto layout = comm::shm::Layout::make(plan, coord::kBoardBytes - unmapped.data_offset());
    if (!layout.ok()) throw std::runtime_error(layout.error().message);
    bytes_ = unmapped.data_offset() + layout->end();
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) throw std::runtime_error("mmap of the board failed");
  }
  ~SharedBoard() { munmap(memory_, bytes_); }
  SharedBoard(const SharedBoard&) = delete;
  SharedBoard& operator=(const SharedBoard&) = delete;

  coord::Board board() const { return coord::Board(memory_, plan_); }

  // What the agent does after it has confirmed a death.
  void announce_death(WorkerUid uid) const {
    coord::Header& header = board().header();
    const std::uint64_t count = header.dead_count.load();
    header.dead_uid[count].store(uid.value());
    header.dead_count.store(count + 1);
    for (std::uint32_t s = 0; s < coord::kMaxSlots; ++s) ring(board().slot(Slot(s)).bell);
  }

 private:
  coord::BoardPlan plan_;
  std::uint64_t bytes_ = 0;
  void* memory_ = nullptr;
};

}  // namespace lockstep::conformance

// Who writes down what a share has come to as it was computed again (participant_rehearsal.cpp).
//
// While a death is being noticed two members may have computed the same share again, and one of
// them may leave with this step: once the other has written, nobody waits for that one any more,
// and the words that it is about to write are those of a later step by then. So whoever writes
// claims the words first, and the step is not whole before the one that has claimed them is done.
// Only the dead, who write no more, lose a claim.
//
// Threads: any; the word is shared.
#pragma once

#include <atomic>
#include <cstdint>

#include "coord/board.h"

namespace lockstep::transaction {

// Zero: nobody's.
class AgainClaim {
 public:
  explicit AgainClaim(coord::Word& word) : word_(word) {}

  // For member `self` of the table of `txn`. False: it is another one's who lives, or others are
  // further on. `is_alive(member)`: of that table's.
  template <class IsAlive>
  bool take(Txn txn, std::uint32_t self, const IsAlive& is_alive) {
    const std::uint64_t mark = txn.value() + 1;
    std::uint64_t there = word_.load(std::memory_order_acquire);
    for (;;) {
      const std::uint64_t of = there >> kMemberBits;
      const auto member = static_cast<std::uint32_t>(there & (kMembers - 1));
      if (of > mark || (of == mark && member != self && is_alive(member))) return false;
      // One who takes it between is seen here, however long this thread has not run.
      if (word_.compare_exchange_strong(there, mark << kMemberBits | self,
                                        std::memory_order_acq_rel))
        return true;
    }
  }

 private:
  static constexpr int kMemberBits = 10;
  static constexpr std::uint64_t kMembers = std::uint64_t{1} << kMemberBits;
  static_assert(coord::kMaxMembers <= kMembers);
  coord::Word& word_;
};

}  // namespace lockstep::transaction

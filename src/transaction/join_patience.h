// How long members wait for a newcomer that a copy of the state is there for (design: survivors
// stall at most 20 ms): twice as long each time that it was too short. From a longest wait on it
// begins anew, as one that never loads shall not hold the others up for good.
//
// Threads: one at a time. Errors: none. Times: nanoseconds.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lockstep::transaction {

class JoinPatience {
 public:
  static constexpr std::uint64_t kFirst = 15'000'000;
  static constexpr std::uint64_t kMost = kFirst << 7;  // 1.9 s
  // Of a copy that crosses a network: as at 100 MB/s, and a sixteenth of that at the least.
  static constexpr std::uint64_t kPerByte = 10;

  // `crossing`: bytes of the copy that a network has to carry; 0: it is on this host.
  std::uint64_t now(std::uint64_t crossing) const {
    return std::min(first(crossing) << doublings_, most(crossing));
  }
  // True: so was the longest, and it begins anew.
  bool was_too_short(std::uint64_t crossing) {
    const bool longest = now(crossing) == most(crossing);
    doublings_ = longest ? 0 : doublings_ + 1;
    return longest;
  }
  void was_enough() { doublings_ = 0; }

 private:
  static std::uint64_t first(std::uint64_t crossing) { return kFirst + crossing * kPerByte; }
  static std::uint64_t most(std::uint64_t crossing) {
    return std::max(kMost, 16 * crossing * kPerByte);
  }
  std::uint32_t doublings_ = 0;
};

}  // namespace lockstep::transaction

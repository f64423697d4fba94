// What a share has added up by name (Share::add()), as its notes have it: a fixed place, of which
// only what is used is written.
//
//   count | of each: name (32 bytes, the rest 0) | the sum's bits | its count
//
// Ownership: a view. Threads: one writer at a time, as of the share's record, which vouches for it.
#pragma once

#include <cstddef>
#include <span>

#include "coord/board.h"
#include "lockstep/sums.h"

namespace lockstep::transaction {

// Names of one update, of all its shares together, and the bytes of each.
inline constexpr std::size_t kMostSums = 16;
inline constexpr std::size_t kMostSumName = 31;

class NotedSums {
 public:
  static constexpr std::size_t kNameWords = (kMostSumName + 1) / sizeof(coord::Word);
  static constexpr std::size_t kWordsEach = kNameWords + 2;
  static constexpr std::size_t kWords = 1 + kMostSums * kWordsEach;

  explicit NotedSums(std::span<coord::Word> words) : words_(words) {}
  // At most kMostSums, with such names.
  void write(const Sums& sums) const;
  Sums read() const;

 private:
  std::span<coord::Word> of(std::size_t number) const {
    return words_.subspan(1 + number * kWordsEach, kWordsEach);
  }
  std::span<coord::Word> words_;
};

}  // namespace lockstep::transaction

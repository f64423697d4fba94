// One member's part of a transaction's sums: its job, what it lends to that, and whether all of
// them are whole.
//
// A chunk that is its own and lies inside one lent source is read from there and never copied;
// whatever others sum is copied into the member's piece. Chunks change their owner only when that
// owner dies, so what stayed with this member is read by nobody else.
//
// Threads: one. Errors: none; preconditions are checked by assert.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "comm/exchange.h"
#include "comm/shm/job.h"
#include "comm/shm/layout.h"

namespace lockstep::comm::shm {

class Sums {
 public:
  // `data`: the engine's memory, laid out by `layout`.
  Sums(const ExchangePlan& plan, const Layout& layout, std::byte* data);

  // A new ownership: all live members' pieces from left to right. Forgets what was seen and summed,
  // marks and lent sources stay.
  void assign(std::vector<PiecePlace> places, const coord::Ownership& ownership,
              std::uint32_t self);
  // A new transaction, with or without sums of this member's.
  void begin(std::uint64_t mark, bool takes_part);

  // See Exchange::lend(). `piece`: the leaf's memory in the bucket.
  void lend(std::uint32_t leaf, std::uint32_t bucket, std::uint64_t offset,
            std::span<const std::byte> source, std::byte* piece);

  // All live owners' pieces of the bucket are there.
  bool ready(std::uint32_t bucket) { return root_.ready(bucket); }
  // Sums own chunks that are ready. False: it had none left.
  bool progress() { return root_.progress(lent_, past_caches_); }
  bool done() const { return root_.done(); }
  // See Exchange::leave_out() and left_out().
  void leave_out(std::uint32_t bucket);
  std::optional<bool> left_out(std::uint32_t bucket) const;
  // All chunks of all buckets are marked.
  bool whole();
  // See Exchange::finite().
  bool finite(std::uint32_t bucket) const;

  // For messages: the first chunk that is not marked, and the first piece that is not there.
  struct Missing {
    std::uint32_t bucket = 0, chunk = 0;
    const coord::Piece* piece = nullptr;  // nullptr: all are there
  };
  std::optional<Missing> missing() const;

  std::optional<Job::Range> own_range(std::uint32_t bucket) const {
    return root_.own_range(bucket);
  }
  std::span<const PiecePlace> places() const { return root_.places(); }

 private:
  void copy(std::byte* to, const std::byte* from, std::uint64_t bytes) const;
  coord::Word& word(std::uint64_t offset) const {
    return *reinterpret_cast<coord::Word*>(data_ + offset);
  }

  const ExchangePlan& plan_;
  const Layout& layout_;
  std::byte* data_;
  bool past_caches_ = false;
  std::uint64_t mark_ = 0;
  Lent lent_;
  Job root_;
  std::vector<std::uint32_t> whole_;  // of each bucket: chunks seen to be marked, in order
};

}  // namespace lockstep::comm::shm

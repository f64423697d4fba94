// One member's part of a transaction's sums: which pieces have come, which chunks are its own to
// sum, and from where it reads them.
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
#include "comm/reduce.h"
#include "comm/shm/layout.h"

namespace lockstep::comm::shm {

// Where one live member's piece lies.
struct PiecePlace {
  coord::Piece piece;
  std::uint32_t slot = 0;
  std::uint32_t position = 0;  // of its first leaf among its owner's items
};

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
  bool ready(std::uint32_t bucket);
  // Sums own chunks that are ready. False: it had none left.
  bool progress();
  bool done() const { return own_left_ == 0; }
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
  std::optional<Missing> missing();

  // First byte and the one behind the last, in the bucket, of what this member sums.
  struct Range {
    std::uint64_t first = 0, end = 0;
  };
  std::optional<Range> own_range(std::uint32_t bucket) const;
  std::span<const PiecePlace> places() const { return places_; }

 private:
  // All counters only grow in a transaction; a death starts them again.
  struct Bucket {
    std::size_t seen = 0;     // pieces seen to be there, in order
    std::size_t summed = 0;   // of own_chunks
    std::uint32_t whole = 0;  // chunks seen to be marked, in order
    std::vector<std::uint32_t> own_chunks;
    std::vector<const std::byte*> lent;  // by chunk; nullptr: the piece has it
  };

  void restart();
  void copy(std::byte* to, const std::byte* from, std::uint64_t bytes) const;
  void sum_own_chunks(std::uint32_t bucket);
  const std::byte* input(const PiecePlace& place, std::uint32_t bucket, std::uint32_t chunk) const;
  coord::Word& word(std::uint64_t offset) const {
    return *reinterpret_cast<coord::Word*>(data_ + offset);
  }
  coord::Word& piece_mark(const PiecePlace& place, std::uint32_t bucket) const;

  const ExchangePlan& plan_;
  const Layout& layout_;
  std::byte* data_;
  bool past_caches_ = false;
  std::uint64_t mark_ = 0;
  bool takes_part_ = false;
  std::optional<std::uint32_t> lender_;  // the leaf whose sources are kept
  std::vector<PiecePlace> places_;
  TreeSum tree_;
  std::vector<Bucket> bucket_;
  std::vector<const std::byte*> inputs_;
  std::uint32_t first_open_ = 0;  // buckets below it need nothing more from this member
  std::size_t own_left_ = 0;      // own chunks not yet summed, over all buckets
};

}  // namespace lockstep::comm::shm

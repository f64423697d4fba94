// The chunks of one node of the fixed tree that one member computes: from which pieces, and where
// they go. The root's are the chunks of the transaction's sum. A node below it, of a host's block
// and for other hosts, is not scaled, so that whoever adds it up further gets the root's bits.
//
// Threads: one. Errors: none; preconditions are checked by assert.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "comm/exchange.h"
#include "comm/reduce.h"
#include "comm/shm/layout.h"

namespace lockstep::comm::shm {

// Where one live member's piece lies, or what another host supplies.
struct PiecePlace {
  coord::Piece piece;
  std::uint32_t slot = 0;
  std::uint32_t position = 0;               // of its first leaf among its owner's items
  std::optional<Layout::Area> remote = {};  // another host's: there, marked by chunk
};

// A member's own gradients of one leaf, as far as they are read where they were made: chunk by
// chunk, instead of from its piece.
struct Lent {
  std::optional<std::uint32_t> leaf;                   // of the first that lent in the transaction
  std::vector<std::vector<const std::byte*>> sources;  // [bucket][chunk]; nullptr: the piece has it
};

class Job {
 public:
  struct Target {
    coord::Node node;
    Layout::Area area;   // for its chunks and their marks
    float scale = 1.0F;  // of the root: 1/V for a mean
  };

  // `data`: the engine's memory, laid out by `layout`. All outlive the job.
  Job(const ExchangePlan& plan, const Layout& layout, std::byte* data)
      : plan_(plan), layout_(layout), data_(data), bucket_(plan.buckets.size()) {}

  // A new ownership. `places`: of all live members' pieces that the node is the sum of, left to
  // right. Forgets what was seen and summed, marks stay.
  void assign(const Target& target, std::vector<PiecePlace> places,
              const std::function<bool(std::uint32_t bucket, std::uint32_t chunk)>& is_own);
  // A new transaction, with or without this member.
  void begin(std::uint64_t mark, bool takes_part);

  // All pieces of this host's members in the bucket are there.
  bool ready(std::uint32_t bucket);
  // Sums own chunks, in order, whose pieces are there, of buckets that `all` is ready for; those of
  // a node below the root only while the transaction's sum of the same chunk is not there. How many
  // it has marked; nullopt: it had none left. `past_caches`: see TreeSum.
  std::optional<std::size_t> progress(const Lent& lent, bool past_caches, Job& all);
  std::optional<std::size_t> progress(const Lent& lent, bool past_caches) {
    return progress(lent, past_caches, *this);
  }
  bool done() const { return own_left_ == 0; }
  // Marks own chunks of the bucket, and sums none of them.
  void leave_out(std::uint32_t bucket);
  // Neither.
  void skip(std::uint32_t bucket);

  bool owns(std::uint32_t bucket, std::uint32_t chunk) const;
  std::span<const PiecePlace> places() const { return places_; }
  bool covers(std::uint32_t leaf) const { return coord::covers(target_.node, leaf); }
  // The first piece of a chunk that is not there; nullptr: all are.
  const coord::Piece* missing(std::uint32_t bucket, std::uint32_t chunk) const;
  // First byte and the one behind the last, in the bucket, of what this member sums.
  struct Range {
    std::uint64_t first = 0, end = 0;
  };
  std::optional<Range> own_range(std::uint32_t bucket) const;

 private:
  // Counters only grow in a transaction; a death starts them again.
  struct Bucket {
    std::size_t seen = 0;    // pieces seen to be there, in order
    std::size_t summed = 0;  // of own_chunks
    std::vector<std::uint32_t> own_chunks;
  };

  void restart();
  std::size_t sum(std::uint32_t bucket, const Lent& lent, bool past_caches);
  void sum_chunk(std::uint32_t bucket, std::uint32_t chunk, const Lent& lent, bool past_caches);
  const std::byte* input(const PiecePlace& place, std::uint32_t bucket, std::uint32_t chunk,
                         const Lent& lent) const;
  coord::Word& word(std::uint64_t offset) const {
    return *reinterpret_cast<coord::Word*>(data_ + offset);
  }
  bool is_there(const PiecePlace& place, std::uint32_t bucket) const;  // of this host's members
  bool is_there(const PiecePlace& place, std::uint32_t bucket, std::uint32_t chunk) const;
  bool remote_there(std::uint32_t bucket, std::uint32_t chunk) const;
  coord::Word& next_mark(std::uint32_t bucket) const;

  const ExchangePlan& plan_;
  const Layout& layout_;
  std::byte* const data_;
  Target target_;
  std::uint64_t mark_ = 0;
  bool takes_part_ = false;
  std::vector<PiecePlace> places_;
  bool has_remote_ = false;
  TreeSum tree_;
  std::vector<Bucket> bucket_;
  std::vector<const std::byte*> inputs_;
  std::uint32_t first_open_ = 0;  // buckets below it need nothing more from this member
  std::size_t own_left_ = 0;      // own chunks not yet summed, over all buckets
};

}  // namespace lockstep::comm::shm

// One member's part of a transaction's sums: its jobs, what it lends to them, and whether all of
// them are whole. With several hosts a member folds, too: chunks that another host owns, of each
// node of its host's block, for the link to send.
//
// A chunk that this member reads (coord::Ownership::chunk_reader), and that lies inside one lent
// source, is read from there and never copied; whatever others read is copied into the member's
// piece. Chunks change their reader only when that one dies, so what stayed with this member is
// read by nobody else. But what it took over from another host's block is folded by nobody: the
// link reads the pieces of such leaves, so of these no more is lent than this host sums.
//
// Nothing is folded in a bucket before all pieces of this host's members are there: so nobody folds
// the transaction before.
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

  // A new ownership: all live members' pieces, and what other hosts supply, from left to right.
  // Forgets what was seen and summed, marks and lent sources stay.
  // `host`: whose board this is, among the run's.
  void assign(std::vector<PiecePlace> places, const coord::Ownership& ownership, std::uint32_t self,
              std::uint32_t host);
  // A new transaction, with or without sums of this member's.
  void begin(std::uint64_t mark, bool takes_part);

  // See Exchange::lend(). `piece`: the leaf's memory in the bucket.
  void lend(std::uint32_t leaf, std::uint32_t bucket, std::uint64_t offset,
            std::span<const std::byte> source, std::byte* piece);

  // All live owners' pieces of the bucket are there, of this host.
  bool ready(std::uint32_t bucket) { return root_.ready(bucket); }
  // Sums and folds own chunks that are ready.
  struct Progress {
    bool summed_last = false;  // of the chunks that it sums
    bool marked = false;       // something that another host may wait for
  };
  Progress progress();
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
  void assign_folds(std::span<const PiecePlace> places, const coord::Ownership& ownership,
                    std::uint32_t self, std::uint32_t host);
  bool reads(std::uint32_t leaf, std::uint32_t bucket, std::uint32_t chunk) const;
  void copy(std::byte* to, const std::byte* from, std::uint64_t bytes) const;
  coord::Word& word(std::uint64_t offset) const {
    return *reinterpret_cast<coord::Word*>(data_ + offset);
  }

  const ExchangePlan& plan_;
  const Layout& layout_;
  std::byte* data_;
  bool past_caches_ = false;
  std::uint64_t mark_ = 0;
  bool takes_part_ = false;
  Lent lent_;
  Job root_;
  std::vector<Job> folds_;            // of each node of the host's block; with one host none
  std::vector<std::uint32_t> whole_;  // of each bucket: chunks seen to be marked, in order
};

}  // namespace lockstep::comm::shm

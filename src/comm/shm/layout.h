// Where everything of an exchange lies in the engine's part of the board: a pure function of the
// plan and of the room there is, the same in all processes. Sparse: untouched pages cost nothing.
//
//   group area | plan | marks | evaluation cells | notes | buffers | heal region | sums |
//     newcomers [host][slot] | judged marks | nodes' marks and values [host][first leaf] |
//     pieces [slot][position][bucket]
//
// Of a run on several hosts each has a place for each node that it supplies: those of its block,
// and leaves that it took over. All of one transaction have different first leaves. So (hosts + 2)
// times V times all buckets must fit into the board, 1 TiB: 8 virtual workers of ResNet-18's 45 MB
// on 2,900 hosts, 64 of VGG-19's 575 MB on 27. A run of one host has no such places.
//
// A piece's place is its owner's slot and the position of its first leaf among the owner's items
// (coord::Ownership::items_of), so a slot touches the same pages whatever block its member has. Its
// mark is keyed by slot, first leaf and bucket.
#pragma once

#include <cstdint>
#include <vector>

#include "comm/exchange.h"
#include "lockstep/status.h"

namespace lockstep::comm::shm {

// Buffers, rows, notes, evaluation cells and the marks of buckets left out of transaction t are in
// t % kGenerations.
using coord::kGenerations;

class Layout {
 public:
  // `room`: bytes from board.data() to the board's end. kUsage when the plan does not fit, with
  // what would.
  static Result<Layout> make(const ExchangePlan& plan, std::uint64_t room);

  std::uint32_t slots() const { return slots_; }  // members' slots must be below it
  std::uint32_t chunks(std::uint32_t bucket) const { return chunks_[bucket]; }
  std::uint64_t bucket_bytes(std::uint32_t bucket) const { return bytes_[bucket]; }
  // All buckets of one piece, whole pages.
  std::uint64_t piece_bytes() const { return piece_bytes_; }

  // A node's value, all buckets of it, and its marks: of each chunk, and of the last one with an
  // element that is not finite. Offsets from board.data().
  struct Area {
    std::uint64_t values = 0, chunk_marks = 0, not_finite_marks = 0;
  };
  const Area& sums() const { return sums_; }  // the root's
  // What a host supplies of a node with this first leaf. Precondition: host < plan.hosts, and there
  // are several.
  Area node(std::uint32_t host, std::uint32_t first_leaf) const;
  std::uint64_t value(const Area& area, std::uint32_t bucket) const {
    return area.values + offset_[bucket];
  }
  std::uint64_t chunk_mark(const Area& area, std::uint32_t bucket, std::uint32_t chunk) const {
    return area.chunk_marks + (std::uint64_t{first_chunk_[bucket]} + chunk) * sizeof(coord::Word);
  }
  std::uint64_t not_finite_mark(const Area& area, std::uint32_t bucket) const {
    return area.not_finite_marks + bucket * sizeof(coord::Word);
  }

  // Of several hosts, what each has said of its newcomers: the mark of the copy that they may load;
  // and by slot the mark of the state that one has loaded, and behind it whose uid.
  std::uint64_t loading_mark(std::uint32_t host) const {
    return newcomers_ + host * (kNewcomer + coord::kMaxSlots * kNewcomer);
  }
  std::uint64_t ready_mark(std::uint32_t host, std::uint32_t slot) const {
    return loading_mark(host) + kNewcomer + slot * kNewcomer;
  }

  // The same: txn + 1 where a newcomer's share has been judged (Exchange::judged_mark).
  std::uint64_t judged_mark(Txn txn, std::uint32_t v) const {
    return judged_ + (txn.value() % kGenerations * virtual_workers_ + v) * sizeof(coord::Word);
  }

  // Offsets from board.data().
  std::uint64_t piece_mark(std::uint32_t slot, std::uint32_t first_leaf,
                           std::uint32_t bucket) const;
  std::uint64_t chunk_mark(std::uint32_t bucket, std::uint32_t chunk) const {
    return chunk_mark(sums_, bucket, chunk);
  }
  // txn + 1 where the bucket is left out of that transaction.
  std::uint64_t left_out_mark(Txn txn, std::uint32_t bucket) const {
    return left_out_marks_ +
           (txn.value() % kGenerations * bytes_.size() + bucket) * sizeof(coord::Word);
  }
  std::uint64_t buffers_mark(Txn txn) const {
    return buffers_marks_ + txn.value() % kGenerations * 64;
  }
  std::uint64_t heal_mark() const { return buffers_marks_ + std::uint64_t{kGenerations} * 64; }
  std::uint64_t row_mark(Txn txn, std::uint32_t v) const {
    return row_marks_ + (txn.value() % kGenerations * virtual_workers_ + v) * sizeof(coord::Word);
  }
  std::uint64_t eval_cell(Txn txn, std::uint32_t item) const {
    return eval_ + (txn.value() % kGenerations * eval_items_ + item) * sizeof(EvalCell);
  }
  std::uint64_t notes(Txn txn, std::uint32_t v) const {
    return notes_ + (txn.value() % kGenerations * virtual_workers_ + v) * notes_stride_;
  }
  std::uint64_t buffers(Txn txn) const {
    return buffers_ + txn.value() % kGenerations * buffers_stride_;
  }
  std::uint64_t row(Txn txn, std::uint32_t v) const {
    return rows_ + (txn.value() % kGenerations * virtual_workers_ + v) * row_stride_;
  }
  std::uint64_t heal() const { return heal_; }
  std::uint64_t sum(std::uint32_t bucket) const { return value(sums_, bucket); }
  std::uint64_t piece(std::uint32_t slot, std::uint32_t position, std::uint32_t bucket) const {
    return pieces_ + (std::uint64_t{slot} * virtual_workers_ + position) * piece_bytes_ +
           offset_[bucket];
  }
  std::uint64_t end() const { return end_; }

 private:
  static constexpr std::uint64_t kNewcomer = 2 * sizeof(coord::Word);
  Result<std::uint64_t> place_buckets(const ExchangePlan& plan, std::uint64_t room);
  Result<std::uint64_t> place_nodes(const ExchangePlan& plan, std::uint64_t chunks,
                                    std::uint64_t room);

  std::uint32_t virtual_workers_ = 0, slots_ = 0, eval_items_ = 0;
  std::vector<std::uint64_t> bytes_, offset_;        // of each bucket; within a piece
  std::vector<std::uint32_t> chunks_, first_chunk_;  // of each bucket; its first mark
  std::uint64_t piece_bytes_ = 0, slot_marks_ = 0, buffers_stride_ = 0, row_stride_ = 0,
                notes_stride_ = 0;
  Area sums_;
  Area nodes_;                    // of host 0's first leaf
  std::uint64_t node_marks_ = 0;  // bytes of the marks of one
  std::uint64_t piece_marks_ = 0, left_out_marks_ = 0, buffers_marks_ = 0, row_marks_ = 0,
                eval_ = 0, newcomers_ = 0, judged_ = 0, notes_ = 0, buffers_ = 0, rows_ = 0,
                heal_ = 0, pieces_ = 0, end_ = 0;
};

}  // namespace lockstep::comm::shm

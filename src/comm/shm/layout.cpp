#include "comm/shm/layout.h"

#include <algorithm>
#include <string>

#include "comm/shm/shared_plan.h"

namespace lockstep::comm::shm {
namespace {

constexpr std::uint64_t kLine = 64;
constexpr std::uint64_t kPage = 4096;
constexpr std::uint32_t kLeastSlots = 8;  // a few replacements even for one virtual worker

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

Error too_large(const std::string& what, std::uint64_t bytes, std::uint64_t room) {
  return {ErrorKind::kUsage, "exchange: " + what + " take " + std::to_string(bytes) +
                                 " bytes, the shared memory has room for " + std::to_string(room) +
                                 "; use fewer virtual workers or a smaller model"};
}

}  // namespace

Result<Layout> Layout::make(const ExchangePlan& plan, std::uint64_t room) {
  if (plan.virtual_workers == 0 || plan.virtual_workers > coord::kMaxVirtualWorkers)
    return Error{ErrorKind::kUsage, "exchange: " + std::to_string(plan.virtual_workers) +
                                        " virtual workers; from 1 to " +
                                        std::to_string(coord::kMaxVirtualWorkers) +
                                        " are possible"};
  if (plan.chunk_bytes == 0 || plan.chunk_bytes % kLine != 0)
    return Error{ErrorKind::kUsage, "exchange: chunks of " + std::to_string(plan.chunk_bytes) +
                                        " bytes; use a multiple of 64"};
  Layout layout;
  layout.virtual_workers_ = plan.virtual_workers;
  LOCKSTEP_ASSIGN(const std::uint64_t chunks, layout.place_buckets(plan, room));
  layout.slot_marks_ =
      round_up(plan.virtual_workers * plan.buckets.size() * sizeof(coord::Word), kLine);

  if (plan.buffer_bytes > room || plan.state_bytes > room)
    return too_large("buffers and state", std::max(plan.buffer_bytes, plan.state_bytes), room);
  const std::uint64_t rows =
      std::uint64_t{kGenerations} * plan.virtual_workers;  // in all generations
  if (plan.row_bytes > room / rows)
    return too_large("of what virtual workers carry from step to step, each one's rows",
                     plan.row_bytes, room / rows);
  layout.piece_marks_ = round_up(shared_plan_offset() + shared_plan_bytes(plan), kLine);
  layout.sums_.chunk_marks = layout.piece_marks_ + coord::kMaxSlots * layout.slot_marks_;
  layout.sums_.not_finite_marks =
      layout.sums_.chunk_marks + chunks * sizeof(coord::Word);  // whole lines
  layout.left_out_marks_ =
      round_up(layout.sums_.not_finite_marks + plan.buckets.size() * sizeof(coord::Word), kLine);
  layout.buffers_marks_ = round_up(
      layout.left_out_mark(Txn(kGenerations - 1), 0) + plan.buckets.size() * sizeof(coord::Word),
      kLine);
  layout.row_marks_ = layout.heal_mark() + kLine;
  const std::uint64_t row_marks = plan.row_bytes == 0 ? 0 : rows * sizeof(coord::Word);
  layout.eval_ = round_up(layout.row_marks_ + row_marks, kPage);
  layout.eval_items_ = plan.eval_items;
  layout.notes_ = round_up(layout.eval_cell(Txn(kGenerations - 1), plan.eval_items), kPage);
  layout.notes_stride_ = round_up(plan.note_words * sizeof(coord::Word), kLine);
  layout.buffers_ = round_up(
      layout.notes_ + std::uint64_t{kGenerations} * plan.virtual_workers * layout.notes_stride_,
      kPage);
  layout.buffers_stride_ = round_up(plan.buffer_bytes, kPage);
  layout.rows_ = layout.buffers_ + kGenerations * layout.buffers_stride_;
  layout.row_stride_ = round_up(plan.row_bytes, kLine);
  layout.heal_ = round_up(layout.rows_ + rows * layout.row_stride_, kPage);
  layout.sums_.values = layout.heal_ + round_up(plan.state_bytes, kPage);
  LOCKSTEP_ASSIGN(layout.pieces_, layout.place_nodes(plan, chunks, room));

  // As many slots as members and their replacements can need, or as there is room for.
  const std::uint64_t wanted = std::clamp(2 * plan.virtual_workers, kLeastSlots, coord::kMaxSlots);
  const std::uint64_t per_slot = plan.virtual_workers * layout.piece_bytes_;
  const std::uint64_t fit = layout.pieces_ >= room ? 0 : (room - layout.pieces_) / per_slot;
  if (fit < 2)
    return too_large("the pieces of two workers, sums and state", layout.pieces_ + 2 * per_slot,
                     room);
  layout.slots_ = static_cast<std::uint32_t>(std::min(wanted, fit));
  layout.end_ = layout.pieces_ + layout.slots_ * per_slot;
  return layout;
}

// Within a piece. Returns how many marks all chunks take, whole lines.
Result<std::uint64_t> Layout::place_buckets(const ExchangePlan& plan, std::uint64_t room) {
  std::uint64_t offset = 0;
  std::uint64_t chunks = 0;
  for (const BucketSpec& bucket : plan.buckets) {
    if (bucket.count > room / size_of(bucket.dtype))
      return too_large("one bucket's elements", bucket.count, room);
    const std::uint64_t bytes = bucket.count * size_of(bucket.dtype);
    bytes_.push_back(bytes);
    offset_.push_back(offset);
    chunks_.push_back(
        static_cast<std::uint32_t>((bytes + plan.chunk_bytes - 1) / plan.chunk_bytes));
    first_chunk_.push_back(static_cast<std::uint32_t>(chunks));
    offset += round_up(bytes, kLine);
    // Each bucket's marks start a line of their own.
    chunks += round_up(chunks_.back(), kLine / sizeof(coord::Word));
    if (offset > room) return too_large("the buckets", offset, room);
  }
  offset_.push_back(offset);  // so that one may ask where bucket 0 of a plan without buckets lies
  piece_bytes_ = std::max(kPage, round_up(offset, kPage));
  return chunks;
}

// Behind the sums. Returns what comes behind them.
Result<std::uint64_t> Layout::place_nodes(const ExchangePlan& plan, std::uint64_t chunks,
                                          std::uint64_t room) {
  newcomers_ = sums_.values + piece_bytes_;
  if (plan.hosts == 1) return newcomers_;
  judged_ = loading_mark(plan.hosts);
  const std::uint64_t begin = round_up(
      judged_ + std::uint64_t{kGenerations} * virtual_workers_ * sizeof(coord::Word), kLine);
  const std::uint64_t nodes = std::uint64_t{plan.hosts} * plan.virtual_workers;
  node_marks_ = round_up((chunks + plan.buckets.size()) * sizeof(coord::Word), kLine);
  if (plan.hosts == 0 || begin > room || nodes > (room - begin) / (piece_bytes_ + node_marks_))
    return too_large("what " + std::to_string(plan.hosts) + " hosts tell each other of " +
                         std::to_string(plan.virtual_workers) + " virtual workers",
                     begin + nodes * (piece_bytes_ + node_marks_), room);
  nodes_.chunk_marks = begin;
  nodes_.not_finite_marks = begin + chunks * sizeof(coord::Word);
  nodes_.values = round_up(begin + nodes * node_marks_, kPage);
  return nodes_.values + nodes * piece_bytes_;
}

Layout::Area Layout::node(std::uint32_t host, std::uint32_t first_leaf) const {
  const std::uint64_t number = std::uint64_t{host} * virtual_workers_ + first_leaf;
  return {nodes_.values + number * piece_bytes_, nodes_.chunk_marks + number * node_marks_,
          nodes_.not_finite_marks + number * node_marks_};
}

std::uint64_t Layout::piece_mark(std::uint32_t slot, std::uint32_t first_leaf,
                                 std::uint32_t bucket) const {
  const std::uint64_t buckets = bytes_.size();
  return piece_marks_ + slot * slot_marks_ + (first_leaf * buckets + bucket) * sizeof(coord::Word);
}

}  // namespace lockstep::comm::shm

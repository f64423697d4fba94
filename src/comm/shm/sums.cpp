#include "comm/shm/sums.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "comm/kernels.h"

namespace lockstep::comm::shm {
namespace {

// What exceeds the caches together is written past them: saves reading the lines first.
constexpr std::uint64_t kPastCachesBytes = std::uint64_t{8} << 20;

std::uint64_t bytes_of(const ExchangePlan& plan) {
  std::uint64_t bytes = 0;
  for (const BucketSpec& bucket : plan.buckets) bytes += bucket.count * size_of(bucket.dtype);
  return bytes;
}

}  // namespace

Sums::Sums(const ExchangePlan& plan, const Layout& layout, std::byte* data)
    : plan_(plan),
      layout_(layout),
      data_(data),
      past_caches_(bytes_of(plan) >= kPastCachesBytes),
      bucket_(plan.buckets.size()) {}

void Sums::assign(std::vector<PiecePlace> places, const coord::Ownership& ownership,
                  std::uint32_t self) {
  places_ = std::move(places);
  std::vector<coord::Node> nodes;
  for (const PiecePlace& place : places_) nodes.push_back(place.piece.node);
  tree_ = TreeSum(nodes, root_of(plan_.virtual_workers), plan_.virtual_workers);
  inputs_.resize(places_.size());
  for (std::uint32_t b = 0; b < bucket_.size(); ++b) {
    const std::uint32_t chunks = layout_.chunks(b);
    bucket_[b].lent.resize(chunks);
    auto& own = bucket_[b].own_chunks;
    own.clear();
    for (std::uint32_t c = 0; c < chunks; ++c)
      if (ownership.chunk_owner(c, chunks, b) == self) own.push_back(c);
  }
  restart();
}

void Sums::begin(std::uint64_t mark, bool takes_part) {
  mark_ = mark;
  takes_part_ = takes_part;
  lender_.reset();
  for (Bucket& bucket : bucket_) std::fill(bucket.lent.begin(), bucket.lent.end(), nullptr);
  restart();
}

// Nothing seen yet. What was marked stays marked.
void Sums::restart() {
  own_left_ = 0;
  first_open_ = 0;
  for (Bucket& bucket : bucket_) {
    bucket.seen = bucket.summed = bucket.whole = 0;
    if (takes_part_) own_left_ += bucket.own_chunks.size();
  }
}

void Sums::lend(std::uint32_t leaf, std::uint32_t b, std::uint64_t offset,
                std::span<const std::byte> source, std::byte* piece) {
  assert(offset + source.size() <= layout_.bucket_bytes(b));
  Bucket& bucket = bucket_[b];
  const bool keeps = lender_.value_or(leaf) == leaf;
  if (keeps) lender_ = leaf;
  const std::uint64_t end = offset + source.size();
  for (std::uint64_t first = offset; first < end;) {
    const auto chunk = static_cast<std::uint32_t>(first / plan_.chunk_bytes);
    const std::uint64_t next = (std::uint64_t{chunk} + 1) * plan_.chunk_bytes;
    const std::uint64_t last = std::min(next, end);
    const bool inside =
        first % plan_.chunk_bytes == 0 && last == std::min(next, layout_.bucket_bytes(b));
    const std::byte* from = source.data() + (first - offset);
    if (keeps && inside &&
        std::binary_search(bucket.own_chunks.begin(), bucket.own_chunks.end(), chunk))
      bucket.lent[chunk] = from;
    else
      copy(piece + first, from, last - first);
    first = last;
  }
}

// Others read it, and this member not again.
void Sums::copy(std::byte* to, const std::byte* from, std::uint64_t bytes) const {
  if (!past_caches_) {
    std::memcpy(to, from, bytes);
    return;
  }
  stream(to, from, bytes);
  stream_fence();
}

coord::Word& Sums::piece_mark(const PiecePlace& place, std::uint32_t bucket) const {
  return word(layout_.piece_mark(place.slot, place.piece.node.first_leaf(), bucket));
}

bool Sums::ready(std::uint32_t b) {
  std::size_t& seen = bucket_[b].seen;
  while (seen < places_.size() && piece_mark(places_[seen], b).load() == mark_) ++seen;
  return seen == places_.size();
}

bool Sums::whole() {
  for (std::uint32_t b = 0; b < bucket_.size(); ++b) {
    std::uint32_t& whole = bucket_[b].whole;
    // A later mark: the others have gone on, so this transaction was whole (they do so only past
    // one that is about to leave).
    while (whole < layout_.chunks(b) && word(layout_.chunk_mark(b, whole)).load() >= mark_) ++whole;
    if (whole < layout_.chunks(b)) return false;
  }
  return true;
}

bool Sums::finite(std::uint32_t b) const {
  return word(layout_.not_finite_mark(b)).load() != mark_;
}

bool Sums::progress() {
  if (done()) return false;
  for (std::uint32_t b = first_open_; b < bucket_.size(); ++b) {
    const Bucket& bucket = bucket_[b];
    if (bucket.summed < bucket.own_chunks.size() && ready(b)) sum_own_chunks(b);
    if (b == first_open_ && bucket.summed == bucket.own_chunks.size()) ++first_open_;
  }
  return true;
}

void Sums::leave_out(std::uint32_t b) {
  // Before the chunks': told by them. Never lowered: others may be further on by now.
  coord::Word& left_out = word(layout_.left_out_mark(Txn(mark_ - 1), b));
  for (std::uint64_t was = left_out.load();
       was < mark_ && !left_out.compare_exchange_weak(was, mark_);) {
  }
  Bucket& bucket = bucket_[b];
  for (; bucket.summed < bucket.own_chunks.size(); ++bucket.summed, --own_left_) {
    coord::Word& chunk_mark = word(layout_.chunk_mark(b, bucket.own_chunks[bucket.summed]));
    if (chunk_mark.load() < mark_) chunk_mark.store(mark_);
  }
}

std::optional<bool> Sums::left_out(std::uint32_t b) const {
  const std::uint64_t left_out = word(layout_.left_out_mark(Txn(mark_ - 1), b)).load();
  if (left_out > mark_) return std::nullopt;
  return left_out == mark_;
}

void Sums::sum_own_chunks(std::uint32_t b) {
  Bucket& bucket = bucket_[b];
  const BucketSpec& spec = plan_.buckets[b];
  for (; bucket.summed < bucket.own_chunks.size(); ++bucket.summed, --own_left_) {
    const std::uint32_t chunk = bucket.own_chunks[bucket.summed];
    coord::Word& chunk_mark = word(layout_.chunk_mark(b, chunk));
    // By an owner that died since, or before we heard of a death. Later: see whole().
    if (chunk_mark.load() >= mark_) continue;
    const std::uint64_t first = std::uint64_t{chunk} * plan_.chunk_bytes;
    const std::uint64_t bytes =
        std::min<std::uint64_t>(plan_.chunk_bytes, layout_.bucket_bytes(b) - first);
    for (std::size_t i = 0; i < places_.size(); ++i) inputs_[i] = input(places_[i], b, chunk);
    const bool finite = tree_(spec.dtype, inputs_, data_ + layout_.sum(b) + first,
                              bytes / size_of(spec.dtype), plan_.scale, past_caches_);
    if (!finite) word(layout_.not_finite_mark(b)).store(mark_);  // before the chunk's: told by it
    chunk_mark.store(mark_);
  }
}

const std::byte* Sums::input(const PiecePlace& place, std::uint32_t b, std::uint32_t chunk) const {
  const std::byte* lent = bucket_[b].lent[chunk];
  if (lent != nullptr && place.piece.node.first_leaf() == *lender_) return lent;
  return data_ + layout_.piece(place.slot, place.position, b) +
         std::uint64_t{chunk} * plan_.chunk_bytes;
}

std::optional<Sums::Missing> Sums::missing() {
  for (std::uint32_t b = 0; b < bucket_.size(); ++b) {
    if (bucket_[b].whole == layout_.chunks(b)) continue;
    Missing what{b, bucket_[b].whole, nullptr};
    for (const PiecePlace& place : places_)
      if (what.piece == nullptr && piece_mark(place, b).load() != mark_) what.piece = &place.piece;
    return what;
  }
  return std::nullopt;
}

std::optional<Sums::Range> Sums::own_range(std::uint32_t b) const {
  const auto& own = bucket_[b].own_chunks;
  if (own.empty()) return std::nullopt;
  const std::uint64_t last = (std::uint64_t{own.back()} + 1) * plan_.chunk_bytes;
  return Range{std::uint64_t{own.front()} * plan_.chunk_bytes,
               std::min(last, layout_.bucket_bytes(b))};
}

}  // namespace lockstep::comm::shm

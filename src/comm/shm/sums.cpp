#include "comm/shm/sums.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <iterator>
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
      root_(plan, layout, data),
      whole_(plan.buckets.size()) {
  lent_.sources.resize(plan.buckets.size());
}

void Sums::assign(std::vector<PiecePlace> places, const coord::Ownership& ownership,
                  std::uint32_t self, std::uint32_t host) {
  assign_folds(places, ownership, self, host);
  root_.assign({root_of(plan_.virtual_workers), layout_.sums(), plan_.scale}, std::move(places),
               [&](std::uint32_t b, std::uint32_t chunk) {
                 return ownership.chunk_owner(chunk, layout_.chunks(b), b) == self;
               });
  for (std::uint32_t b = 0; b < whole_.size(); ++b) {
    lent_.sources[b].resize(layout_.chunks(b));
    whole_[b] = 0;
  }
}

void Sums::assign_folds(std::span<const PiecePlace> places, const coord::Ownership& ownership,
                        std::uint32_t self, std::uint32_t host) {
  folds_.clear();
  for (const coord::Node node : ownership.folded()) {
    std::vector<PiecePlace> below;
    std::ranges::copy_if(places, std::back_inserter(below), [node](const PiecePlace& place) {
      return coord::covers(node, place.piece.node.first_leaf());
    });
    Job& fold = folds_.emplace_back(plan_, layout_, data_);
    fold.assign({node, layout_.node(host, node.first_leaf())}, std::move(below),
                [&](std::uint32_t b, std::uint32_t chunk) {
                  const std::uint32_t chunks = layout_.chunks(b);
                  return ownership.chunk_reader(chunk, chunks, b) == self &&
                         !ownership.is_here(ownership.chunk_owner(chunk, chunks, b));
                });
    fold.begin(mark_, takes_part_);
  }
}

void Sums::begin(std::uint64_t mark, bool takes_part) {
  mark_ = mark;
  takes_part_ = takes_part;
  lent_.leaf.reset();
  for (auto& sources : lent_.sources) std::fill(sources.begin(), sources.end(), nullptr);
  std::fill(whole_.begin(), whole_.end(), 0);
  root_.begin(mark, takes_part);
  for (Job& fold : folds_) fold.begin(mark, takes_part);
}

// This member alone reads that chunk of the leaf.
bool Sums::reads(std::uint32_t leaf, std::uint32_t b, std::uint32_t chunk) const {
  return root_.owns(b, chunk) || std::ranges::any_of(folds_, [&](const Job& fold) {
           return fold.covers(leaf) && fold.owns(b, chunk);
         });
}

void Sums::lend(std::uint32_t leaf, std::uint32_t b, std::uint64_t offset,
                std::span<const std::byte> source, std::byte* piece) {
  assert(offset + source.size() <= layout_.bucket_bytes(b));
  const bool keeps = lent_.leaf.value_or(leaf) == leaf;
  if (keeps) lent_.leaf = leaf;
  const std::uint64_t end = offset + source.size();
  for (std::uint64_t first = offset; first < end;) {
    const auto chunk = static_cast<std::uint32_t>(first / plan_.chunk_bytes);
    const std::uint64_t next = (std::uint64_t{chunk} + 1) * plan_.chunk_bytes;
    const std::uint64_t last = std::min(next, end);
    const bool inside =
        first % plan_.chunk_bytes == 0 && last == std::min(next, layout_.bucket_bytes(b));
    const std::byte* from = source.data() + (first - offset);
    if (keeps && inside && reads(leaf, b, chunk))
      lent_.sources[b][chunk] = from;
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

Sums::Progress Sums::progress() {
  Progress progress;
  for (Job& fold : folds_)
    progress.marked = fold.progress(lent_, past_caches_, root_).value_or(0) > 0 || progress.marked;
  const std::optional<std::size_t> summed = root_.progress(lent_, past_caches_, root_);
  progress.summed_last = summed && root_.done();
  progress.marked = summed.value_or(0) > 0 || progress.marked;
  return progress;
}

bool Sums::whole() {
  for (std::uint32_t b = 0; b < whole_.size(); ++b) {
    std::uint32_t& whole = whole_[b];
    // A later mark: the others have gone on, so this transaction was whole (they do so only past
    // one that is about to leave).
    while (whole < layout_.chunks(b) && word(layout_.chunk_mark(b, whole)).load() >= mark_) ++whole;
    if (whole < layout_.chunks(b)) return false;
  }
  return true;
}

bool Sums::finite(std::uint32_t b) const {
  return word(layout_.not_finite_mark(layout_.sums(), b)).load() != mark_;
}

void Sums::leave_out(std::uint32_t b) {
  // Before the chunks': told by them. Never lowered: others may be further on by now.
  coord::Word& left_out = word(layout_.left_out_mark(Txn(mark_ - 1), b));
  for (std::uint64_t was = left_out.load();
       was < mark_ && !left_out.compare_exchange_weak(was, mark_);) {
  }
  root_.leave_out(b);
  for (Job& fold : folds_) fold.skip(b);
}

std::optional<bool> Sums::left_out(std::uint32_t b) const {
  const std::uint64_t left_out = word(layout_.left_out_mark(Txn(mark_ - 1), b)).load();
  if (left_out > mark_) return std::nullopt;
  return left_out == mark_;
}

std::optional<Sums::Missing> Sums::missing() const {
  for (std::uint32_t b = 0; b < whole_.size(); ++b)
    if (whole_[b] < layout_.chunks(b)) return Missing{b, whole_[b], root_.missing(b, whole_[b])};
  return std::nullopt;
}

}  // namespace lockstep::comm::shm

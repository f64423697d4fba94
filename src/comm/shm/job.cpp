#include "comm/shm/job.h"

#include <algorithm>
#include <utility>

namespace lockstep::comm::shm {

void Job::assign(const Target& target, std::vector<PiecePlace> places,
                 const std::function<bool(std::uint32_t bucket, std::uint32_t chunk)>& is_own) {
  target_ = target;
  places_ = std::move(places);
  std::vector<coord::Node> nodes;
  for (const PiecePlace& place : places_) nodes.push_back(place.piece.node);
  has_remote_ =
      std::ranges::any_of(places_, [](const auto& one) { return one.remote.has_value(); });
  tree_ = TreeSum(nodes, target.node, plan_.virtual_workers);
  inputs_.resize(places_.size());
  for (std::uint32_t b = 0; b < bucket_.size(); ++b) {
    auto& own = bucket_[b].own_chunks;
    own.clear();
    for (std::uint32_t c = 0; c < layout_.chunks(b); ++c)
      if (is_own(b, c)) own.push_back(c);
  }
  restart();
}

void Job::begin(std::uint64_t mark, bool takes_part) {
  mark_ = mark;
  takes_part_ = takes_part;
  restart();
}

// Nothing seen yet. What was marked stays marked.
void Job::restart() {
  own_left_ = 0;
  first_open_ = 0;
  for (Bucket& bucket : bucket_) {
    bucket.seen = bucket.summed = 0;
    if (takes_part_) own_left_ += bucket.own_chunks.size();
  }
}

bool Job::owns(std::uint32_t b, std::uint32_t chunk) const {
  const auto& own = bucket_[b].own_chunks;
  return std::binary_search(own.begin(), own.end(), chunk);
}

bool Job::is_there(const PiecePlace& place, std::uint32_t b) const {
  return word(layout_.piece_mark(place.slot, place.piece.node.first_leaf(), b)).load() == mark_;
}

bool Job::is_there(const PiecePlace& place, std::uint32_t b, std::uint32_t chunk) const {
  return place.remote ? word(layout_.chunk_mark(*place.remote, b, chunk)).load() == mark_
                      : is_there(place, b);
}

bool Job::remote_there(std::uint32_t b, std::uint32_t chunk) const {
  return !has_remote_ || std::ranges::all_of(places_, [&](const PiecePlace& place) {
    return !place.remote || is_there(place, b, chunk);
  });
}

bool Job::ready(std::uint32_t b) {
  std::size_t& seen = bucket_[b].seen;
  while (seen < places_.size() && (places_[seen].remote || is_there(places_[seen], b))) ++seen;
  return seen == places_.size();
}

const coord::Piece* Job::missing(std::uint32_t b, std::uint32_t chunk) const {
  for (const PiecePlace& place : places_)
    if (!is_there(place, b, chunk)) return &place.piece;
  return nullptr;
}

std::optional<std::size_t> Job::progress(const Lent& lent, bool past_caches, Job& all) {
  if (done()) return std::nullopt;
  std::size_t marked = 0;
  for (std::uint32_t b = first_open_; b < bucket_.size(); ++b) {
    const Bucket& bucket = bucket_[b];
    if (bucket.summed < bucket.own_chunks.size() && all.ready(b))
      marked += sum(b, lent, past_caches);
    if (b == first_open_ && bucket.summed == bucket.own_chunks.size()) ++first_open_;
  }
  return marked;
}

// Of the next own chunk.
coord::Word& Job::next_mark(std::uint32_t b) const {
  const Bucket& bucket = bucket_[b];
  return word(layout_.chunk_mark(target_.area, b, bucket.own_chunks[bucket.summed]));
}

void Job::leave_out(std::uint32_t b) {
  Bucket& bucket = bucket_[b];
  for (; bucket.summed < bucket.own_chunks.size(); ++bucket.summed, --own_left_) {
    coord::Word& chunk_mark = next_mark(b);
    if (chunk_mark.load() < mark_) chunk_mark.store(mark_);
  }
}

void Job::skip(std::uint32_t b) {
  Bucket& bucket = bucket_[b];
  own_left_ -= bucket.own_chunks.size() - bucket.summed;
  bucket.summed = bucket.own_chunks.size();
}

std::size_t Job::sum(std::uint32_t b, const Lent& lent, bool past_caches) {
  Bucket& bucket = bucket_[b];
  std::size_t marked = 0;
  for (; bucket.summed < bucket.own_chunks.size(); ++bucket.summed, --own_left_) {
    coord::Word& chunk_mark = next_mark(b);
    const std::uint32_t chunk = bucket.own_chunks[bucket.summed];
    // By an owner that died since, or before we heard of a death. Later: see Sums::whole(). A node
    // whose sum is there has no reader left, and nobody waits for it: the others may be a
    // transaction ahead, and write over its pieces.
    if (chunk_mark.load() >= mark_ || word(layout_.chunk_mark(b, chunk)).load() >= mark_) continue;
    if (!remote_there(b, chunk)) break;
    sum_chunk(b, chunk, lent, past_caches);
    chunk_mark.store(mark_);
    ++marked;
  }
  return marked;
}

// All but its mark.
void Job::sum_chunk(std::uint32_t b, std::uint32_t chunk, const Lent& lent, bool past_caches) {
  const DType dtype = plan_.buckets[b].dtype;
  const std::uint64_t first = std::uint64_t{chunk} * plan_.chunk_bytes;
  const std::uint64_t bytes =
      std::min<std::uint64_t>(plan_.chunk_bytes, layout_.bucket_bytes(b) - first);
  for (std::size_t i = 0; i < places_.size(); ++i) inputs_[i] = input(places_[i], b, chunk, lent);
  const bool finite = tree_(dtype, inputs_, data_ + layout_.value(target_.area, b) + first,
                            bytes / size_of(dtype), target_.scale, past_caches);
  // Before the chunk's: told by it.
  if (!finite) word(layout_.not_finite_mark(target_.area, b)).store(mark_);
}

const std::byte* Job::input(const PiecePlace& place, std::uint32_t b, std::uint32_t chunk,
                            const Lent& lent) const {
  if (place.remote)
    return data_ + layout_.value(*place.remote, b) + std::uint64_t{chunk} * plan_.chunk_bytes;
  const std::byte* const source = lent.sources[b][chunk];
  if (source != nullptr && place.piece.node.first_leaf() == *lent.leaf) return source;
  return data_ + layout_.piece(place.slot, place.position, b) +
         std::uint64_t{chunk} * plan_.chunk_bytes;
}

std::optional<Job::Range> Job::own_range(std::uint32_t b) const {
  const auto& own = bucket_[b].own_chunks;
  if (own.empty()) return std::nullopt;
  const std::uint64_t last = (std::uint64_t{own.back()} + 1) * plan_.chunk_bytes;
  return Range{std::uint64_t{own.front()} * plan_.chunk_bytes,
               std::min(last, layout_.bucket_bytes(b))};
}

}  // namespace lockstep::comm::shm

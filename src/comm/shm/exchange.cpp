// The exchange over shared memory. docs/design/protocol.md has the protocol; layout.h where things
// lie.
//
// Who rings: the member whose publish() makes a bucket's pieces complete, and the member whose
// chunk makes the transaction whole. Marks are stored and loaded seq_cst, so of several that finish
// at once at least one sees all the others' marks. A member that dies between mark and ring is made
// up for by the agent, which rings all bells after a death.
#include "comm/exchange.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <string>
#include <utility>

#include "comm/reduce.h"
#include "comm/shm/layout.h"
#include "comm/shm/pages.h"
#include "comm/shm/wait.h"

namespace lockstep::comm {
namespace {

using coord::Word;

// Sums that exceed the caches together are written past them: saves reading the lines first.
constexpr std::uint64_t kPastCachesBytes = std::uint64_t{8} << 20;

class ShmExchange final : public Exchange {
 public:
  ShmExchange(coord::Board board, Slot slot, WorkerUid uid, const ExchangePlan& plan);

  Status begin(const coord::Table& table) override {
    return start(table, plan_.virtual_workers, true);
  }
  Status begin_evaluation(const coord::Table& table, std::uint32_t items) override {
    return start(table, items, false);
  }
  const coord::Ownership& ownership() const override { return *ownership_; }
  std::uint32_t self() const override { return self_; }
  std::span<std::byte> piece(std::uint32_t leaf, std::uint32_t bucket) override;
  void publish(coord::Node node, std::uint32_t bucket) override;
  void progress() override;
  Result<Wait> wait(const std::function<bool()>& also, Deadline deadline) override;
  std::span<const std::byte> sum(std::uint32_t bucket) const override {
    return {data_ + layout_.sum(bucket), layout_.bucket_bytes(bucket)};
  }
  void ring_members() override;
  std::span<std::byte> buffers() override {
    return {data_ + layout_.buffers(table_.txn), plan_.buffer_bytes};
  }
  void publish_buffers() override;
  bool buffers_published() const override {
    return word(layout_.buffers_mark(table_.txn)).load() >= mark();
  }
  EvalCell& eval(std::uint32_t item) override {
    assert(item < plan_.eval_items);
    return *reinterpret_cast<EvalCell*>(data_ + layout_.eval_cell(item));
  }
  std::span<std::byte> heal_region() override {
    return {data_ + layout_.heal(), plan_.state_bytes};
  }
  Word& heal_mark() override { return word(layout_.heal_mark()); }
  void prefault(bool heal) override;
  std::uint64_t end() const override { return plan_.offset + layout_.end(); }
  void abort(Error cause) override;

 private:
  // This member's work on one bucket in one transaction. All three only grow; a death starts them
  // again.
  struct Bucket {
    std::size_t seen = 0;     // pieces seen to be there, in order
    std::size_t summed = 0;   // of own_chunks
    std::uint32_t whole = 0;  // chunks seen to be marked, in order
    std::vector<std::uint32_t> own_chunks;
  };

  Word& word(std::uint64_t offset) const { return *reinterpret_cast<Word*>(data_ + offset); }
  std::uint64_t mark() const { return table_.txn.value() + 1; }
  bool member() const { return self_ < table_.members.size(); }
  std::uint32_t buckets() const { return static_cast<std::uint32_t>(plan_.buckets.size()); }
  Doorbell& bell() const { return board_.slot(slot_).bell; }
  std::uint64_t dead_count() const {
    return std::min<std::uint64_t>(board_.header().dead_count.load(), coord::kMaxDead);
  }
  std::uint64_t piece_offset(const coord::Piece& piece, std::uint32_t bucket) const {
    return layout_.piece(slot_of(piece.member), position_[piece.node.first_leaf()], bucket);
  }
  std::uint32_t slot_of(std::uint32_t m) const { return table_.members[m].slot.value(); }

  Status start(const coord::Table& table, std::uint32_t items, bool sums);
  Status check(const coord::Table& table, std::uint32_t items, bool sums) const;
  void share_out();
  void plan_sums();
  void restart_buckets();
  bool ready(std::uint32_t bucket);
  bool whole();
  void sum_own_chunks(std::uint32_t bucket);
  void ring_live_members() const;
  void reach(std::uint64_t offset, std::uint64_t bytes, shm::Access access) const;
  std::uint32_t expected_ranks() const;
  void prefault_pieces(std::uint32_t ranks);
  Error missing() const;

  coord::Board board_;
  Slot slot_;
  WorkerUid uid_;
  ExchangePlan plan_;
  std::byte* data_;
  bool past_caches_ = false;
  bool prefault_later_ = false;  // asked for before anybody knew the block
  std::uint32_t cpus_;
  shm::FirstCause cause_;
  shm::Layout layout_;

  // Of the transaction.
  coord::Table table_;
  std::uint32_t items_ = 0;
  bool sums_ = false;
  std::uint32_t self_ = 0;

  // Of the ownership, kept while members, items and the dead stay the same.
  std::optional<coord::Ownership> ownership_;
  std::uint64_t dead_seen_ = 0;
  std::vector<coord::Piece> pieces_;
  std::vector<std::uint32_t> position_;  // of each item among its owner's
  TreeSum tree_;
  std::vector<Bucket> bucket_;
  std::vector<const std::byte*> inputs_;
  std::uint32_t first_open_ = 0;  // buckets below it need nothing more from this member
  std::size_t own_left_ = 0;      // own chunks not yet summed, over all buckets
};

ShmExchange::ShmExchange(coord::Board board, Slot slot, WorkerUid uid, const ExchangePlan& plan)
    : board_(board),
      slot_(slot),
      uid_(uid),
      plan_(plan),
      data_(board.data() + plan.offset),
      cpus_(shm::usable_cpus()) {
  auto layout = shm::Layout::make(plan, coord::kBoardBytes - board.data_offset() - plan.offset);
  if (layout.ok() && slot.value() >= layout->slots())
    layout =
        Error{ErrorKind::kUsage, "exchange: this worker has slot " + std::to_string(slot.value()) +
                                     ", shared memory has room for slots below " +
                                     std::to_string(layout->slots()) + "; use fewer workers"};
  if (!layout.ok())
    cause_.fail(layout.error());
  else
    layout_ = *std::move(layout);
  std::uint64_t bytes = 0;
  for (const BucketSpec& bucket : plan.buckets) bytes += bucket.count * size_of(bucket.dtype);
  past_caches_ = bytes >= kPastCachesBytes;
  bucket_.resize(plan.buckets.size());
}

Status ShmExchange::check(const coord::Table& table, std::uint32_t items, bool sums) const {
  LOCKSTEP_TRY(cause_.status());
  const auto where = "exchange: transaction " + std::to_string(table.txn.value());
  const std::size_t most =
      sums ? std::min(plan_.virtual_workers, coord::kMaxWorkers) : coord::kMaxWorkers;
  if (table.members.empty() || table.members.size() > most)
    return Error{ErrorKind::kUsage, where + " has " + std::to_string(table.members.size()) +
                                        " members; from 1 to " + std::to_string(most) +
                                        " are possible"};
  if (!sums && items > plan_.eval_items)
    return Error{ErrorKind::kUsage, where + " has " + std::to_string(items) +
                                        " batches to evaluate; the plan has " +
                                        std::to_string(plan_.eval_items)};
  for (const coord::Member& member : table.members)
    if (member.slot.value() >= layout_.slots())
      return Error{ErrorKind::kUsage, where + ": worker " + std::to_string(member.uid.value()) +
                                          " has slot " + std::to_string(member.slot.value()) +
                                          "; there is room for slots below " +
                                          std::to_string(layout_.slots())};
  return {};
}

Status ShmExchange::start(const coord::Table& table, std::uint32_t items, bool sums) {
  LOCKSTEP_TRY(check(table, items, sums));
  const bool same = ownership_ && sums == sums_ && items == items_ &&
                    table.members == table_.members && dead_count() == dead_seen_;
  table_ = table;
  items_ = items;
  sums_ = sums;
  if (!same) {
    const auto found = std::find_if(table.members.begin(), table.members.end(),
                                    [&](const coord::Member& m) { return m.uid == uid_; });
    self_ = static_cast<std::uint32_t>(found - table.members.begin());
    share_out();
  }
  restart_buckets();
  if (std::exchange(prefault_later_, false)) prefault_pieces(expected_ranks());
  return cause_.status();
}

// Everything that follows from the table and the dead.
void ShmExchange::share_out() {
  const std::vector<WorkerUid> dead = board_.dead();
  dead_seen_ = dead.size();
  ownership_.emplace(table_, items_, dead);
  if (member() && !ownership_->alive(self_))
    cause_.fail({ErrorKind::kAborted, "exchange: worker " + std::to_string(uid_.value()) +
                                          " was declared dead; transaction " +
                                          std::to_string(table_.txn.value()) +
                                          " goes on without it"});
  position_.assign(items_, 0);
  for (std::uint32_t m = 0; m < table_.members.size(); ++m) {
    const auto& items = ownership_->items_of(m);
    for (std::uint32_t i = 0; i < items.size(); ++i) position_[items[i]] = i;
  }
  if (sums_ && member() && ownership_->alive(self_)) plan_sums();
}

void ShmExchange::plan_sums() {
  pieces_ = ownership_->pieces();
  std::vector<coord::Node> nodes;
  for (const coord::Piece& piece : pieces_) nodes.push_back(piece.node);
  tree_ = TreeSum(nodes, items_);
  inputs_.resize(pieces_.size());
  for (std::uint32_t b = 0; b < buckets(); ++b) {
    auto& own = bucket_[b].own_chunks;
    own.clear();
    for (std::uint32_t c = 0; c < layout_.chunks(b); ++c)
      if (ownership_->chunk_owner(c, layout_.chunks(b), b) == self_) own.push_back(c);
  }
}

// This member's sums start again: nothing seen yet. What was marked stays marked.
void ShmExchange::restart_buckets() {
  own_left_ = 0;
  first_open_ = 0;
  for (Bucket& bucket : bucket_) {
    bucket.seen = bucket.summed = bucket.whole = 0;
    if (sums_ && member()) own_left_ += bucket.own_chunks.size();
  }
}

std::span<std::byte> ShmExchange::piece(std::uint32_t leaf, std::uint32_t bucket) {
  assert(member() && ownership_->owner(leaf) == self_);
  return {data_ + layout_.piece(slot_.value(), position_[leaf], bucket),
          layout_.bucket_bytes(bucket)};
}

void ShmExchange::publish(coord::Node node, std::uint32_t bucket) {
  assert(member() && ownership_->owner(node.first_leaf()) == self_);
  word(layout_.piece_mark(slot_.value(), node.first_leaf(), bucket)).store(mark());
  // After a death others may know of other pieces than this member does: ring to be safe.
  if (ready(bucket) || dead_count() != dead_seen_) ring_live_members();
}

// All live owners' pieces of the bucket are there.
bool ShmExchange::ready(std::uint32_t b) {
  Bucket& bucket = bucket_[b];
  while (bucket.seen < pieces_.size()) {
    const coord::Piece& piece = pieces_[bucket.seen];
    if (word(layout_.piece_mark(slot_of(piece.member), piece.node.first_leaf(), b)).load() !=
        mark())
      return false;
    ++bucket.seen;
  }
  return true;
}

bool ShmExchange::whole() {
  if (!sums_) return true;
  for (std::uint32_t b = 0; b < buckets(); ++b) {
    std::uint32_t& seen = bucket_[b].whole;
    while (seen < layout_.chunks(b)) {
      // A later mark: the others have gone on, so this transaction was whole (they do so only past one that is about to leave).
      if (word(layout_.chunk_mark(b, seen)).load() < mark()) return false;
      ++seen;
    }
  }
  return true;
}

void ShmExchange::progress() {
  if (own_left_ == 0) return;
  for (std::uint32_t b = first_open_; b < buckets(); ++b) {
    const bool done = bucket_[b].summed == bucket_[b].own_chunks.size();
    if (!done && ready(b)) sum_own_chunks(b);
    if (b == first_open_ && bucket_[b].summed == bucket_[b].own_chunks.size()) ++first_open_;
  }
  if (own_left_ == 0 && whole()) ring_members();
}

void ShmExchange::sum_own_chunks(std::uint32_t b) {
  Bucket& bucket = bucket_[b];
  const BucketSpec& spec = plan_.buckets[b];
  for (; bucket.summed < bucket.own_chunks.size(); ++bucket.summed, --own_left_) {
    const std::uint32_t chunk = bucket.own_chunks[bucket.summed];
    Word& chunk_mark = word(layout_.chunk_mark(b, chunk));
    if (chunk_mark.load() == mark())
      continue;  // by an owner that died since, or before we heard of a death
    const std::uint64_t first = std::uint64_t{chunk} * plan_.chunk_bytes;
    const std::uint64_t bytes =
        std::min<std::uint64_t>(plan_.chunk_bytes, layout_.bucket_bytes(b) - first);
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      inputs_[i] = data_ + piece_offset(pieces_[i], b) + first;
    tree_(spec.dtype, inputs_, data_ + layout_.sum(b) + first, bytes / size_of(spec.dtype),
          plan_.scale, past_caches_);
    chunk_mark.store(mark());
  }
}

Result<Wait> ShmExchange::wait(const std::function<bool()>& also, Deadline deadline) {
  for (;;) {
    const std::uint32_t seen = bell().rings.load(std::memory_order_acquire);
    LOCKSTEP_TRY(cause_.status());
    progress();
    if (whole() && also()) return Wait::kWhole;
    if (dead_count() != dead_seen_) {
      share_out();
      restart_buckets();
      LOCKSTEP_TRY(cause_.status());
      return Wait::kChanged;
    }
    if (deadline.passed()) return missing();
    shm::await_ring(bell(), seen, ownership_->live_count() <= cpus_, deadline);
  }
}

// What a wait that timed out was waiting for, and whose it is.
Error ShmExchange::missing() const {
  const auto who = [&](std::uint32_t m) {
    return "rank " + std::to_string(m) + " (worker " +
           std::to_string(table_.members[m].uid.value()) + ")";
  };
  const std::string text =
      "exchange: transaction " + std::to_string(table_.txn.value()) + " not whole in time; ";
  for (std::uint32_t b = 0; sums_ && b < buckets(); ++b) {
    if (bucket_[b].whole == layout_.chunks(b)) continue;
    for (const coord::Piece& piece : ownership_->pieces())
      if (word(layout_.piece_mark(slot_of(piece.member), piece.node.first_leaf(), b)).load() !=
          mark())
        return {ErrorKind::kTimedOut,
                text + "bucket " + std::to_string(b) + " lacks the piece from virtual worker " +
                    std::to_string(piece.node.first_leaf()) + " on, of " + who(piece.member)};
    const std::uint32_t chunk = bucket_[b].whole;
    return {ErrorKind::kTimedOut, text + "bucket " + std::to_string(b) + " lacks chunk " +
                                      std::to_string(chunk) + " of its sum, of " +
                                      who(ownership_->chunk_owner(chunk, layout_.chunks(b), b))};
  }
  return {ErrorKind::kTimedOut,
          text + "sums are there; losses, buffers, evaluation cells or the next table are not"};
}

void ShmExchange::ring_live_members() const {
  for (std::uint32_t m = 0; m < table_.members.size(); ++m)
    if (m != self_ && ownership_->alive(m)) ring(board_.slot(table_.members[m].slot).bell);
}

void ShmExchange::ring_members() {
  ring_live_members();
  // Newcomers wait for this transaction too. A torn read of the proposal rings a wrong bell at
  // worst; the agent rings all bells when it has written one.
  const coord::ProposalCell& wish = board_.header().proposal;
  const auto count =
      std::min<std::uint64_t>(wish.count.load(std::memory_order_relaxed), coord::kMaxWorkers);
  for (std::uint64_t i = 0; i < count; ++i) {
    const Slot joiner(static_cast<std::uint32_t>(wish.slot[i].load(std::memory_order_relaxed)));
    const bool known = std::any_of(table_.members.begin(), table_.members.end(),
                                   [&](const coord::Member& m) { return m.slot == joiner; });
    if (!known && joiner != slot_ && joiner.value() < coord::kMaxSlots)
      ring(board_.slot(joiner).bell);
  }
}

void ShmExchange::publish_buffers() {
  word(layout_.buffers_mark(table_.txn)).store(mark());
  ring_members();
}

void ShmExchange::reach(std::uint64_t offset, std::uint64_t bytes, shm::Access access) const {
  shm::prefault(data_ + offset, bytes, access);
}

void ShmExchange::prefault(bool heal) {
  if (cause_.failed()) return;
  reach(layout_.sum(0), layout_.piece_bytes(), shm::Access::kWrite);
  reach(layout_.buffers(Txn(0)), layout_.heal() - layout_.buffers(Txn(0)), shm::Access::kWrite);
  if (heal) reach(layout_.heal(), plan_.state_bytes, shm::Access::kWrite);
  const std::uint32_t ranks = expected_ranks();
  prefault_later_ = ranks == 0;
  if (ranks > 0) prefault_pieces(ranks);
}

// Members when this one takes part; 0: nobody knows yet.
std::uint32_t ShmExchange::expected_ranks() const {
  if (ownership_) return static_cast<std::uint32_t>(table_.members.size()) + (member() ? 0 : 1);
  const coord::TableCell* newest = &board_.header().table[0];
  for (const coord::TableCell& cell : board_.header().table)
    if (cell.mark.load() > newest->mark.load()) newest = &cell;
  if (newest->mark.load() == 0) return 0;
  const std::uint64_t count = newest->count.load(std::memory_order_relaxed);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, coord::kMaxWorkers)) + 1;
}

void ShmExchange::prefault_pieces(std::uint32_t ranks) {
  const std::uint32_t block = (plan_.virtual_workers + ranks - 1) / ranks;
  const std::uint32_t adopted = ranks > 1 ? (block + ranks - 2) / (ranks - 1) : 0;
  const std::uint32_t positions = std::min(block + adopted, plan_.virtual_workers);
  reach(layout_.piece(slot_.value(), 0, 0), positions * layout_.piece_bytes(), shm::Access::kWrite);
  if (!sums_ || !member()) return;
  for (const coord::Piece& piece : pieces_)
    for (std::uint32_t b = 0; b < buckets(); ++b) {
      const auto& own = bucket_[b].own_chunks;
      if (piece.member == self_ || own.empty()) continue;
      const std::uint64_t first = std::uint64_t{own.front()} * plan_.chunk_bytes;
      const std::uint64_t last =
          std::min((std::uint64_t{own.back()} + 1) * plan_.chunk_bytes, layout_.bucket_bytes(b));
      reach(piece_offset(piece, b) + first, last - first, shm::Access::kRead);
    }
}

void ShmExchange::abort(Error cause) {
  cause_.fail(std::move(cause));
  ring(bell());
}

}  // namespace

std::unique_ptr<Exchange> make_shm_exchange(coord::Board board, Slot slot, WorkerUid uid,
                                            const ExchangePlan& plan) {
  return std::make_unique<ShmExchange>(board, slot, uid, plan);
}

}  // namespace lockstep::comm

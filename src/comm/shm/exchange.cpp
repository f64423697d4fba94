// The exchange over shared memory (docs/design/protocol.md); layout.h has where things lie.
//
// Who rings: the member whose publish() makes a bucket's pieces complete, and the member whose
// chunk makes the transaction whole. Marks are stored and loaded seq_cst, so of several that finish
// at once at least one sees all the others' marks. A member that dies between mark and ring is made
// up for by the agent, which rings all bells after a death.
//
// Of a run on several hosts this is one host's part: its members' pieces, and what other hosts
// supply, which the link writes into this board; it rings the members of its host, and they ring
// it.
#include "comm/exchange.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <string>
#include <utility>

#include "base/cpus.h"
#include "comm/shm/layout.h"
#include "comm/shm/missing.h"
#include "comm/shm/newcomer.h"
#include "comm/shm/pages.h"
#include "comm/shm/shared_plan.h"
#include "comm/shm/sums.h"
#include "comm/shm/wait.h"

namespace lockstep::comm {
namespace {

using coord::Word;

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
  void lend(std::uint32_t leaf, std::uint32_t bucket, std::uint64_t offset,
            std::span<const std::byte> source) override {
    sums_.lend(leaf, bucket, offset, source, piece(leaf, bucket).data());
  }
  void publish(coord::Node node, std::uint32_t bucket) override;
  void leave_out(std::uint32_t bucket) override {
    assert(step_ && member());
    left_out_.push_back(bucket);
    mark_left_out();
  }
  std::optional<bool> left_out(std::uint32_t bucket) const override {
    return sums_.left_out(bucket);
  }
  void progress() override;
  Result<Wait> wait(const std::function<bool()>& also, const std::function<Status()>& meanwhile,
                    Deadline deadline) override;
  std::span<const std::byte> sum(std::uint32_t bucket) const override {
    return {data_ + layout_.sum(bucket), layout_.bucket_bytes(bucket)};
  }
  bool finite(std::uint32_t bucket) const override { return sums_.finite(bucket); }
  void ring_members() override;
  void ring_link() override {
    if (plan_.hosts > 1) ring(board_.header().link_bell);  // also for a host in no table yet
  }
  std::span<std::byte> buffers() override {
    return {data_ + layout_.buffers(table_.txn), plan_.buffer_bytes};
  }
  void publish_buffers() override;
  bool buffers_published() const override {
    return word(layout_.buffers_mark(table_.txn)).load() >= mark();
  }
  std::span<std::byte> row(std::uint32_t v) override {
    assert(v < plan_.virtual_workers);
    return {data_ + layout_.row(table_.txn, v), plan_.row_bytes};
  }
  void publish_row(std::uint32_t v) override {
    assert(plan_.row_bytes > 0);
    word(layout_.row_mark(table_.txn, v)).store(mark());
  }
  bool row_published(std::uint32_t v) const override {
    return plan_.row_bytes == 0 || word(layout_.row_mark(table_.txn, v)).load() >= mark();
  }
  EvalCell& eval(std::uint32_t item) override {
    assert(item < plan_.eval_items);
    return *reinterpret_cast<EvalCell*>(data_ + layout_.eval_cell(table_.txn, item));
  }
  std::span<Word> notes(std::uint32_t v) override {
    assert(v < plan_.virtual_workers);
    return {&word(layout_.notes(table_.txn, v)), plan_.note_words};
  }
  Word& judged_mark(std::uint32_t v) override { return word(layout_.judged_mark(table_.txn, v)); }
  std::span<std::byte> heal_region() override {
    return {data_ + layout_.heal(), plan_.state_bytes};
  }
  Word& heal_mark() override { return word(layout_.heal_mark()); }
  Newcomer newcomer(const coord::Member& member) const override {
    return shm::newcomer_of(member, coord::stay_of(uid_), table_, board_, layout_, data_,
                            plan_.hosts);
  }
  void prefault(bool heal) override;
  std::uint64_t end() const override { return plan_.offset + layout_.end(); }
  void abort(Error cause) override;

 private:
  Word& word(std::uint64_t offset) const { return *reinterpret_cast<Word*>(data_ + offset); }
  std::uint64_t mark() const { return table_.txn.value() + 1; }
  bool member() const { return self_ < table_.members.size(); }
  std::uint32_t buckets() const { return static_cast<std::uint32_t>(plan_.buckets.size()); }
  Doorbell& bell() const { return board_.slot(slot_).bell; }
  std::uint64_t dead_count() const {
    return std::min<std::uint64_t>(board_.header().dead_count.load(), coord::kMaxDead);
  }
  std::size_t hosts() const { return table_.hosts.size(); }  // 0: the only one
  bool is_here(const coord::Member& m) const {
    return coord::stay_of(m.uid) == coord::stay_of(uid_);
  }

  Status start(const coord::Table& table, std::uint32_t items, bool step);
  Status check(const coord::Table& table, std::uint32_t items, bool step) const;
  void share_out();
  std::vector<shm::PiecePlace> places() const;
  void mark_left_out();
  bool whole() { return !step_ || sums_.whole(); }
  void ring_live_members() const;
  void reach(std::uint64_t offset, std::uint64_t bytes, shm::Access access) const;
  std::uint32_t expected_ranks() const;
  void prefault_pieces(std::uint32_t ranks);
  Error missing();

  coord::Board board_;
  Slot slot_;
  WorkerUid uid_;
  ExchangePlan plan_;
  std::byte* data_;
  bool prefault_later_ = false;  // asked for before anybody knew the block
  std::uint32_t cpus_;
  shm::FirstCause cause_;
  shm::Layout layout_;

  // Of the transaction.
  coord::Table table_;
  std::uint32_t items_ = 0;
  bool step_ = false;  // a step has sums, an evaluation none
  std::uint32_t self_ = 0;
  std::vector<std::uint32_t> left_out_;  // not marked yet

  // Of the ownership, kept while members, items and the dead stay the same.
  std::optional<coord::Ownership> ownership_;
  std::uint64_t dead_seen_ = 0;
  std::vector<std::uint32_t> position_;  // of each item among its owner's
  shm::Sums sums_;
};

ShmExchange::ShmExchange(coord::Board board, Slot slot, WorkerUid uid, const ExchangePlan& plan)
    : board_(board),
      slot_(slot),
      uid_(uid),
      plan_(plan),
      data_(board.data() + plan.offset),
      cpus_(static_cast<std::uint32_t>(usable_cpus())),
      sums_(plan_, layout_, data_) {
  auto layout = shm::Layout::make(plan, plan.board_bytes - board.data_offset() - plan.offset);
  if (layout.ok() && slot.value() >= layout->slots())
    layout =
        Error{ErrorKind::kUsage, "exchange: this worker has slot " + std::to_string(slot.value()) +
                                     ", shared memory has room for slots below " +
                                     std::to_string(layout->slots()) + "; use fewer workers"};
  if (!layout.ok()) {
    cause_.fail(layout.error());
    return;
  }
  layout_ = *std::move(layout);
  if (const Status agreed = shm::share_plan(board, plan_); !agreed.ok())
    cause_.fail(agreed.error());
}

Status ShmExchange::check(const coord::Table& table, std::uint32_t items, bool step) const {
  LOCKSTEP_TRY(cause_.status());
  const auto where = "exchange: transaction " + std::to_string(table.txn.value());
  const std::size_t most =
      step ? std::min(plan_.virtual_workers, coord::kMaxMembers) : coord::kMaxMembers;
  if (table.members.empty() || table.members.size() > most)
    return Error{ErrorKind::kUsage, where + " has " + std::to_string(table.members.size()) +
                                        " members; from 1 to " + std::to_string(most) +
                                        " are possible"};
  if (!step && items > plan_.eval_items)
    return Error{ErrorKind::kUsage, where + " has " + std::to_string(items) +
                                        " batches to evaluate; the plan has " +
                                        std::to_string(plan_.eval_items)};
  for (const coord::Host& host : table.hosts)
    if (host.stay.host >= plan_.hosts)
      return Error{ErrorKind::kUsage, where + " has host " + std::to_string(host.stay.host) +
                                          "; there is room for " + std::to_string(plan_.hosts) +
                                          ", numbered from 0"};
  for (const coord::Member& member : table.members)
    if (is_here(member) && member.slot.value() >= layout_.slots())
      return Error{ErrorKind::kUsage,
                   where + ": worker " + std::to_string(coord::number_in_host(member.uid)) +
                       " has slot " + std::to_string(member.slot.value()) +
                       "; there is room for slots below " + std::to_string(layout_.slots())};
  return {};
}

Status ShmExchange::start(const coord::Table& table, std::uint32_t items, bool step) {
  LOCKSTEP_TRY(check(table, items, step));
  const bool same = ownership_ && step == step_ && items == items_ &&
                    table.members == table_.members && table.hosts == table_.hosts &&
                    dead_count() == dead_seen_;
  table_ = table;
  items_ = items;
  step_ = step;
  if (!same) {
    const auto found = std::find_if(table.members.begin(), table.members.end(),
                                    [&](const coord::Member& m) { return m.uid == uid_; });
    self_ = static_cast<std::uint32_t>(found - table.members.begin());
    share_out();
  }
  left_out_.clear();
  sums_.begin(mark(), step && member());
  if (std::exchange(prefault_later_, false)) prefault_pieces(expected_ranks());
  return cause_.status();
}

// Everything that follows from the table and the dead.
void ShmExchange::share_out() {
  const std::vector<WorkerUid> dead = board_.dead();
  dead_seen_ = dead.size();
  ownership_.emplace(table_, items_, coord::stay_of(uid_), dead);
  if (member() && !ownership_->alive(self_))
    cause_.fail(
        {ErrorKind::kAborted, "exchange: worker " + std::to_string(coord::number_in_host(uid_)) +
                                  " was declared dead; transaction " +
                                  std::to_string(table_.txn.value()) + " goes on without it"});
  position_.assign(items_, 0);
  for (std::uint32_t m = 0; m < table_.members.size(); ++m) {
    const auto& items = ownership_->items_of(m);
    for (std::uint32_t i = 0; i < items.size(); ++i) position_[items[i]] = i;
  }
  if (step_ && member() && ownership_->alive(self_))
    sums_.assign(places(), *ownership_, self_, coord::stay_of(uid_).host);
}

std::vector<shm::PiecePlace> ShmExchange::places() const {
  std::vector<shm::PiecePlace> places;
  for (const coord::Piece& piece : ownership_->pieces()) {
    const coord::Member& member = table_.members[piece.member];
    const std::uint32_t leaf = piece.node.first_leaf();
    if (ownership_->is_here(piece.member))
      places.push_back({piece, member.slot.value(), position_[leaf]});
    else
      places.push_back({piece, 0, 0, layout_.node(coord::stay_of(member.uid).host, leaf)});
  }
  return places;
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
  if (sums_.ready(bucket) || dead_count() != dead_seen_) ring_live_members();
}

// A chunk has one mark for all transactions, and what is left out needs nothing of other hosts: it
// must not hide a sum of the transaction before from one that lacks that still. Whoever has marked
// a record has begun this transaction, and lacks nothing of the one before.
void ShmExchange::mark_left_out() {
  if (left_out_.empty()) return;
  for (std::uint32_t v = 0; hosts() > 1 && v < plan_.virtual_workers; ++v)
    if (board_.record(table_.txn, VirtualWorker(static_cast<int>(v))).mark.load() < mark()) return;
  for (const std::uint32_t bucket : left_out_) sums_.leave_out(bucket);
  left_out_.clear();
  if (hosts() > 1) ring_members();
}

void ShmExchange::progress() {
  mark_left_out();
  const shm::Sums::Progress progress = sums_.progress();
  if (progress.marked) ring_link();
  if (progress.summed_last && whole()) ring_members();
}

Result<Wait> ShmExchange::wait(const std::function<bool()>& also,
                               const std::function<Status()>& meanwhile, Deadline deadline) {
  for (;;) {
    const std::uint32_t seen = bell().rings.load(std::memory_order_acquire);
    LOCKSTEP_TRY(cause_.status());
    LOCKSTEP_TRY(meanwhile());
    progress();
    if (whole() && also()) return Wait::kWhole;
    if (dead_count() != dead_seen_) {
      share_out();
      LOCKSTEP_TRY(cause_.status());
      return Wait::kChanged;
    }
    if (deadline.passed()) return missing();
    const std::uint32_t link = hosts() > 1 ? 1 : 0;
    shm::await_ring(bell(), seen, ownership_->live_count() + link <= cpus_, deadline);
  }
}

Error ShmExchange::missing() {
  return {ErrorKind::kTimedOut, "exchange: transaction " + std::to_string(table_.txn.value()) +
                                    " not whole in time; " +
                                    shm::missing_in_words(table_, *ownership_, layout_,
                                                          step_ ? sums_.missing() : std::nullopt)};
}

void ShmExchange::ring_live_members() const {
  for (std::uint32_t m = 0; m < table_.members.size(); ++m)
    if (m != self_ && ownership_->is_here(m) && ownership_->alive(m))
      ring(board_.slot(table_.members[m].slot).bell);
}

void ShmExchange::ring_members() {
  ring_live_members();
  ring_link();
  // Newcomers wait for this transaction too. A torn read of the proposal rings a wrong bell at
  // worst; the agent rings all bells when it has written one.
  coord::each_proposed(board_.header().proposal, [&](const coord::Member& joiner) {
    const bool known = std::ranges::any_of(table_.members, [&](const coord::Member& m) {
      return is_here(m) && m.slot == joiner.slot;
    });
    if (!known && is_here(joiner) && joiner.slot != slot_) ring(board_.slot(joiner.slot).bell);
  });
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
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(count, coord::kMaxMembers)) + 1;
}

void ShmExchange::prefault_pieces(std::uint32_t ranks) {
  const std::uint32_t block = (plan_.virtual_workers + ranks - 1) / ranks;
  const std::uint32_t adopted = ranks > 1 ? (block + ranks - 2) / (ranks - 1) : 0;
  const std::uint32_t positions = std::min(block + adopted, plan_.virtual_workers);
  reach(layout_.piece(slot_.value(), 0, 0), positions * layout_.piece_bytes(), shm::Access::kWrite);
  if (!step_ || !member()) return;
  for (const shm::PiecePlace& place : sums_.places())
    for (std::uint32_t b = 0; b < buckets(); ++b) {
      const auto own = sums_.own_range(b);
      if (place.remote || place.piece.member == self_ || !own) continue;
      reach(layout_.piece(place.slot, place.position, b) + own->first, own->end - own->first,
            shm::Access::kRead);
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

#include "carrier/board_memory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "comm/shm/shared_plan.h"
#include "link/owners.h"

namespace lockstep::carrier {
namespace {

using link::Item;
using link::Kind;

link::Contents contents_of(const comm::ExchangePlan& plan, const comm::shm::Layout& layout) {
  link::Contents contents;
  for (std::uint32_t b = 0; b < plan.buckets.size(); ++b)
    contents.chunks.push_back(layout.chunks(b));
  contents.records = plan.virtual_workers;
  contents.buffers = plan.buffer_bytes > 0 ? 1 : 0;
  contents.rows = plan.row_bytes > 0 ? plan.virtual_workers : 0;
  contents.cells = plan.eval_items;
  return contents;
}

}  // namespace

std::unique_ptr<BoardMemory> BoardMemory::open(std::byte* base, std::uint64_t bytes,
                                               coord::Stay self) {
  const auto plan = comm::shm::shared_plan(base, bytes);
  if (!plan) return nullptr;
  const coord::Board board(base, plan->board);
  auto layout = comm::shm::Layout::make(
      plan->exchange, plan->exchange.board_bytes - board.data_offset() - plan->exchange.offset);
  if (!layout.ok()) return nullptr;
  return std::unique_ptr<BoardMemory>(
      new BoardMemory(board, plan->exchange, *std::move(layout), self));
}

BoardMemory::BoardMemory(coord::Board board, const comm::ExchangePlan& plan,
                         comm::shm::Layout layout, coord::Stay self)
    : board_(board),
      plan_(plan),
      layout_(std::move(layout)),
      data_(board.data() + plan.offset),
      self_(self),
      contents_(contents_of(plan_, layout_)) {
  look();
}

coord::ShareRecord& BoardMemory::record(const Item& item) const {
  return board_.record(item.txn, VirtualWorker(static_cast<int>(item.index)));
}

comm::EvalCell& BoardMemory::cell(const Item& item) const {
  return *reinterpret_cast<comm::EvalCell*>(data_ + layout_.eval_cell(item.txn, item.index));
}

void BoardMemory::look() {
  if (board_.header().dead_count.load(std::memory_order_acquire) != deaths_.size())
    deaths_ = board_.dead();
  look_at_tables();
  look_where_it_begins();
  look_at_judged();
  advance();
}

bool BoardMemory::is_listed() const {
  return std::ranges::any_of(tables_, [this](const auto& table) {
    return table && std::ranges::any_of(table->members, [&](const auto& m) { return is_here(m); });
  });
}

// A board that no table lists begins with the newest copy of the state that has come. Where its
// newcomers have missed their table it begins anew with the next copy: of what lies before that
// some may never come.
void BoardMemory::look_where_it_begins() {
  const std::uint64_t copied = word(layout_.heal_mark()).load(std::memory_order_acquire);
  const bool begins = copied > 0 && (first_ == link::kNever || first_ < copied - 1);
  if (!begins || is_listed()) return;
  first_ = copied - 1;
  lowest_ = std::max(lowest_, first_);
  open_.clear();
  there_ = 0;
}

void BoardMemory::look_at_judged() {
  judged_.clear();
  for (const auto& table : tables_)
    for (std::uint32_t v = 0; table && plan_.hosts > 1 && v < plan_.virtual_workers; ++v)
      if (const Item item = link::judged_of(table->txn.value(), v);
          mark(item) == item.txn.value() + 1)
        judged_.push_back(item);
}

bool BoardMemory::look_at_tables() {
  bool news = false;
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    const coord::TableCell& cell = board_.header().table[i];
    const std::uint64_t mark = cell.mark.load(std::memory_order_acquire);
    coord::Table table;
    if (mark == 0 || (tables_[i] && tables_[i]->txn.value() + 1 == mark) ||
        !coord::read_table(cell, Txn(mark - 1), table))
      continue;
    newest_ = std::max(newest_, mark - 1);
    tables_[i] = std::move(table);
    news = true;
  }
  if (!news) return false;
  // One that is just being written over was not read again, and does not count any more.
  for (auto& table : tables_)
    if (table && table->txn.value() + coord::kTables <= newest_) table.reset();
  if (first_ == link::kNever && is_listed()) {
    for (const auto& table : tables_)
      if (table) first_ = std::min(first_, table->txn.value());
    lowest_ = first_;
  }
  std::erase_if(owned_, [&](const auto& one) { return table(one.first) == nullptr; });
  // Nobody is so far behind that it is still being sent.
  std::erase_if(
      sent_, [&](const auto& one) { return one.first.txn.value() + 2 * coord::kTables < newest_; });
  return true;
}

// Where this object is so far behind that the table is written over: members are, at most, one less
// behind than that, so of what came before nobody needs anything. Links are not, as their hosts'
// members wait with them; whoever looks seldom is, and a newcomer's board.
void BoardMemory::skip_what_is_gone() {
  if (newest_ < lowest_ + coord::kTables) return;
  lowest_ = newest_;
  for (const auto& table : tables_)
    if (table) lowest_ = std::min(lowest_, table->txn.value());
  first_ = lowest_;
  open_.clear();
  there_ = 0;
}

// Past what is whole.
void BoardMemory::advance() {
  for (;;) {
    if (first_ == link::kNever) return;
    skip_what_is_gone();
    const coord::Table* const now = table(lowest_);
    if (now == nullptr) return;
    if (open_.empty()) {
      const auto add = [this](const Item& item) { open_.push_back(item); };
      link::narrowed(contents_.contents(lowest_), now->parts).for_each(lowest_, add);
      add(link::table_of(lowest_ + 1));
    }
    while (there_ < open_.size() && link::has(*this, open_[there_])) ++there_;
    if (there_ < open_.size()) return;
    ++lowest_;
    open_.clear();
    there_ = 0;
  }
}

const coord::Table* BoardMemory::table(std::uint64_t txn) const {
  const auto& table = tables_[txn % coord::kTables];
  return table && table->txn.value() == txn ? &*table : nullptr;
}

// None: its table is not here.
const BoardMemory::Owned* BoardMemory::owned(std::uint64_t txn) const {
  const coord::Table* const table = this->table(txn);
  if (table == nullptr) return nullptr;
  Owned& owned = owned_[txn];
  if (owned.deaths == deaths_.size() && !owned.position.empty()) return &owned;
  owned.deaths = deaths_.size();
  const std::uint32_t items = table->parts.items > 0 ? table->parts.items : plan_.virtual_workers;
  owned.position.assign(items, 0);
  owned.ownership.reset();
  if (std::ranges::none_of(table->members, [&](const auto& m) { return is_here(m); }))
    return &owned;
  owned.ownership.emplace(*table, items, self_, deaths_);
  for (std::uint32_t m = 0; m < table->members.size(); ++m) {
    const auto& own = owned.ownership->items_of(m);
    for (std::uint32_t i = 0; i < own.size(); ++i) owned.position[own[i]] = i;
  }
  return &owned;
}

// Whose piece a node of this host is: of what was taken over from another host nobody folds
// anything. nullptr: nobody's.
const coord::Member* BoardMemory::supplier(const Item& node) const {
  const Owned* const owned = this->owned(node.txn.value());
  if (owned == nullptr || !owned->ownership || node.level > 0 ||
      node.node >= owned->position.size() || owned->ownership->in_block(node.node))
    return nullptr;
  const coord::Member& member =
      table(node.txn.value())->members[owned->ownership->owner(node.node)];
  return is_here(member) ? &member : nullptr;
}

bool BoardMemory::is_of_plan(const Item& item) const {
  switch (item.kind) {
    case Kind::kTable:
      return true;
    case Kind::kNode:
      if (item.host >= plan_.hosts || plan_.hosts == 1 || item.level >= 32 ||
          std::uint64_t{item.node} << item.level >= plan_.virtual_workers)
        return false;
      [[fallthrough]];
    case Kind::kChunk:
      return item.bucket < plan_.buckets.size() && item.index < layout_.chunks(item.bucket);
    case Kind::kLoading:
    case Kind::kReady:
    case Kind::kImage:
      return plan_.hosts > 1 && item.host < plan_.hosts && item.index < coord::kMaxSlots;
    case Kind::kRow:
      return plan_.row_bytes > 0 && item.index < plan_.virtual_workers;
    case Kind::kJudged:
      return plan_.hosts > 1 && item.index < plan_.virtual_workers;
    case Kind::kRecord:
      return item.index < plan_.virtual_workers;
    case Kind::kBuffers:
      return plan_.buffer_bytes > 0;
    case Kind::kCell:
      return item.index < plan_.eval_items;
  }
  return false;
}

// Of all but tables. nullptr: this board has none for it.
const coord::Word* BoardMemory::mark_word(const Item& item) const {
  if (!is_of_plan(item)) return nullptr;
  switch (item.kind) {
    case Kind::kTable:
      return nullptr;
    case Kind::kChunk:
      return &word(layout_.chunk_mark(item.bucket, item.index));
    case Kind::kRecord:
      return &record(item).mark;
    case Kind::kBuffers:
      return &word(layout_.buffers_mark(item.txn));
    case Kind::kRow:
      return &word(layout_.row_mark(item.txn, item.index));
    case Kind::kCell:
      return &cell(item).mark;
    case Kind::kLoading:
      return &word(item.host == self_.host ? layout_.heal_mark() : layout_.loading_mark(item.host));
    case Kind::kImage:
      return &word(layout_.heal_mark());
    case Kind::kReady:
      if (item.host == self_.host) return &board_.slot(Slot(item.index)).ready_txn;
      return &word(layout_.ready_mark(item.host, item.index));
    case Kind::kJudged:
      return &word(layout_.judged_mark(item.txn, item.index));
    case Kind::kNode:
      break;
  }
  const std::uint32_t leaf = item.node << item.level;
  if (item.host == self_.host)
    if (const coord::Member* const member = supplier(item))
      return &word(layout_.piece_mark(member->slot.value(), leaf, item.bucket));
  return &word(layout_.chunk_mark(layout_.node(item.host, leaf), item.bucket, item.index));
}

// Whether what lies in the place of a newcomer's item is of the stay that the item names.
bool BoardMemory::is_of_stay(const Item& item) const {
  if (item.host == self_.host) return item.level == self_.count;
  std::uint64_t uid = 0;
  std::memcpy(&uid, memory(item).data(), sizeof uid);
  return coord::stay_of(WorkerUid(uid)).count == item.level;
}

// Whom the agent proposes, on any host, and no table has yet.
void BoardMemory::each_newcomer(const std::function<void(const coord::Member&)>& what) const {
  const coord::Table* const newest = table(newest_);
  coord::each_proposed(board_.header().proposal, [&](const coord::Member& member) {
    if (newest == nullptr || !newest->has(member.uid)) what(member);
  });
}

// A copy that this host's members have made is there for its own newcomers, and for hosts that
// come: whoever publishes the next table waits for these, too.
std::vector<Item> BoardMemory::newcomers() const {
  std::vector<Item> items;
  if (plan_.hosts == 1) return items;
  const std::uint64_t copied = word(layout_.heal_mark()).load();
  each_newcomer([&](const coord::Member& member) {
    const bool serves = is_here(member) || image_for(coord::stay_of(member.uid));
    if (items.empty() && copied > 0 && serves)
      items.push_back(link::loading_of(copied - 1, self_.host));
    if (!is_here(member)) return;
    const coord::WorkerSlot& slot = board_.slot(member.slot);
    const std::uint64_t ready = slot.ready_txn.load();
    if (slot.uid.load() == member.uid.value() && ready > 0)
      items.push_back(link::ready_of(ready - 1, self_, member.slot.value()));
  });
  return items;
}

// What has come from elsewhere is sent on by nobody.
std::optional<Item> BoardMemory::image_for(coord::Stay to) const {
  const std::uint64_t copied = word(layout_.heal_mark()).load(std::memory_order_acquire);
  const coord::Table* const of = copied > 0 ? table(copied - 1) : nullptr;
  const coord::Table* const newest = table(newest_);
  if (to == self_ || of == nullptr || !link::takes_part(*of, self_) ||
      (newest != nullptr && link::takes_part(*newest, to)))
    return std::nullopt;
  bool waits = false;
  each_newcomer([&](const coord::Member& m) { waits = waits || coord::stay_of(m.uid) == to; });
  if (!waits) return std::nullopt;
  return link::image_of(copied - 1, self_.host);
}

// A torn look rings somebody in vain, or says of somebody else what is true of him.
void BoardMemory::each_proposed_here(const std::function<void(const coord::Member&)>& what) const {
  coord::each_proposed(board_.header().proposal, [&](const coord::Member& member) {
    if (is_here(member)) what(member);
  });
}

std::uint64_t BoardMemory::mark(const Item& item) const {
  if (item.kind == Kind::kTable) {
    const auto& table = tables_[item.txn.value() % coord::kTables];
    return table ? table->txn.value() + 1 : 0;
  }
  const coord::Word* const word = mark_word(item);
  if (word == nullptr || (item.kind == Kind::kReady && !is_of_stay(item))) return 0;
  return word->load();
}

}  // namespace lockstep::carrier

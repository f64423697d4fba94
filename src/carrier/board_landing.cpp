// What is sent of a board's items, and what lands on it.
#include <algorithm>
#include <bitset>
#include <cstring>

#include "carrier/board_memory.h"

namespace lockstep::carrier {
namespace {

using link::Kind;

constexpr std::size_t kMark = sizeof(coord::Word);  // first in a record and in a cell

std::byte* bytes_at(void* address, std::size_t offset) {
  return static_cast<std::byte*>(address) + offset;
}

// A word that says of a transaction what others have not said of a later one.
void raise(coord::Word& word, std::uint64_t mark) {
  for (std::uint64_t was = word.load(); was < mark && !word.compare_exchange_weak(was, mark);) {
  }
}

}  // namespace

std::uint64_t BoardMemory::record_bytes() const {
  return coord::ShareRecord::bytes(board_.plan().ids_capacity) - kMark +
         plan_.note_words * sizeof(coord::Word);
}

// Of a chunk or a node, in what has this offset.
std::span<std::byte> BoardMemory::chunk_of(std::uint64_t value, const Item& item) const {
  const std::uint64_t first = std::uint64_t{item.index} * plan_.chunk_bytes;
  return {data_ + value + first,
          std::min<std::uint64_t>(plan_.chunk_bytes, layout_.bucket_bytes(item.bucket) - first)};
}

// Of what lies in one piece.
std::span<std::byte> BoardMemory::memory(const Item& item) const {
  switch (item.kind) {
    case Kind::kChunk:
      return chunk_of(layout_.sum(item.bucket), item);
    case Kind::kBuffers:
      return {data_ + layout_.buffers(item.txn), plan_.buffer_bytes};
    case Kind::kRow:
      return {data_ + layout_.row(item.txn, item.index), plan_.row_bytes};
    case Kind::kCell:
      return {bytes_at(&cell(item), kMark), sizeof(comm::EvalCell) - kMark};
    case Kind::kImage:
      return {data_ + layout_.heal(), plan_.state_bytes};
    case Kind::kReady:
      if (item.host == self_.host)
        return {bytes_at(&board_.slot(Slot(item.index)).uid, 0), sizeof(coord::Word)};
      return {data_ + layout_.ready_mark(item.host, item.index) + kMark, sizeof(coord::Word)};
    case Kind::kNode:
      break;
    default:
      return {};
  }
  const std::uint32_t leaf = item.node << item.level;
  if (item.host == self_.host)
    if (const coord::Member* const member = supplier(item))
      return chunk_of(
          layout_.piece(member->slot.value(), owned(item.txn.value())->position[leaf], item.bucket),
          item);
  return chunk_of(layout_.value(layout_.node(item.host, leaf), item.bucket), item);
}

// Samples and notes as they are; what nobody has filled in goes along. Of notes those of a
// rehearsal may be being written: each word is read by itself, in order, as members do.
BoardMemory::Bytes BoardMemory::packed(const Item& item) const {
  Bytes bytes(record_bytes());
  const std::size_t fixed = coord::ShareRecord::bytes(board_.plan().ids_capacity) - kMark;
  std::memcpy(bytes.data(), bytes_at(&record(item), kMark), fixed);
  for (std::uint64_t i = 0; i < plan_.note_words; ++i) {
    const std::uint64_t note =
        word(layout_.notes(item.txn, item.index) + i * sizeof(coord::Word)).load();
    std::memcpy(bytes.data() + fixed + i * sizeof note, &note, sizeof note);
  }
  return bytes;
}

void BoardMemory::unpack(const Item& item, std::span<const std::byte> bytes) const {
  const std::size_t fixed = coord::ShareRecord::bytes(board_.plan().ids_capacity) - kMark;
  for (std::uint64_t i = 0; i < plan_.note_words; ++i) {
    std::uint64_t note = 0;
    std::memcpy(&note, bytes.data() + fixed + i * sizeof note, sizeof note);
    word(layout_.notes(item.txn, item.index) + i * sizeof(coord::Word))
        .store(note, std::memory_order_relaxed);
  }
  coord::ShareRecord& record = this->record(item);
  std::memcpy(bytes_at(&record, kMark), bytes.data(), fixed);
  // What another process says is no length to rely on.
  record.ids_count = std::min<std::uint64_t>(record.ids_count, board_.plan().ids_capacity);
}

BoardMemory::Value BoardMemory::value(const Item& item) const {
  if (item.kind == Kind::kRecord) {
    auto found = sent_.find(item);
    if (found == sent_.end()) found = sent_.emplace(item, packed(item)).first;
    return {found->second, link::kPlain};
  }
  if (item.kind != Kind::kChunk) return {memory(item), link::kPlain};
  const std::uint64_t mark = item.txn.value() + 1;
  if (word(layout_.left_out_mark(item.txn, item.bucket)).load() == mark)
    return {{}, link::kLeftOut};
  const bool finite = word(layout_.not_finite_mark(layout_.sums(), item.bucket)).load() != mark;
  return {memory(item), finite ? link::kPlain : link::kNotFinite};
}

std::optional<std::span<std::byte>> BoardMemory::place(const Item& item) {
  if (item.kind == Kind::kTable || !is_of_plan(item)) return std::nullopt;
  if (link::is_of_host(item.kind) && item.host == self_.host) return std::nullopt;
  if (item.kind == Kind::kImage) {
    if (is_listed()) return std::nullopt;  // its own members copy into it
    word(layout_.heal_mark()).store(0);    // as a donor does, before it writes
    std::atomic_thread_fence(std::memory_order_release);
  }
  if (item.kind != Kind::kRecord) return memory(item);
  Bytes& bytes = landing_[link::place_of(item)];
  bytes.resize(record_bytes());
  return bytes;
}

void BoardMemory::store_mark(const Item& item, std::uint8_t flags) {
  const std::uint64_t mark = item.txn.value() + 1;
  if (item.kind == Kind::kChunk) {
    if ((flags & link::kNotFinite) != 0)
      raise(word(layout_.not_finite_mark(layout_.sums(), item.bucket)), mark);
    if ((flags & link::kLeftOut) != 0)
      raise(word(layout_.left_out_mark(item.txn, item.bucket)), mark);
  }
  if (item.kind == Kind::kRecord) {
    const auto bytes = landing_.find(link::place_of(item));
    if (bytes == landing_.end()) return;
    unpack(item, bytes->second);
    landing_.erase(bytes);
  }
  const_cast<coord::Word*>(mark_word(item))->store(mark);
}

void BoardMemory::landed(const Item& item, std::uint8_t flags) {
  if (!place(item) || link::has(*this, item)) return;
  store_mark(item, flags);
  if (item.kind == Kind::kImage) look_where_it_begins();
  advance();
  // Of chunks the last one is waited for.
  if (item.kind == Kind::kChunk && item.txn.value() == lowest_ && there_ < open_.size() &&
      open_[there_].kind == Kind::kChunk)
    return;
  ring_for(item);
}

void BoardMemory::landed(const coord::Table& table) {
  const Item item = link::table_of(table.txn.value());
  if (link::has(*this, item)) return;
  coord::write_table(board_.table(table.txn), table);
  look();
  ring_all();
}

// A node has one who waits for it; should that one just have died, the
// agent rings all who may be its heirs.
void BoardMemory::ring_for(const Item& item) {
  if (board_.header().dead_count.load() != deaths_.size()) look();
  const Owned* const owned = item.kind == Kind::kNode ? this->owned(item.txn.value()) : nullptr;
  if (owned == nullptr || !owned->ownership) return ring_all();
  const std::uint32_t reader =
      owned->ownership->chunk_reader(item.index, layout_.chunks(item.bucket), item.bucket);
  ring(board_.slot(table(item.txn.value())->members[reader].slot).bell);
}

// This host's members, and those that are to become some.
void BoardMemory::ring_all() const {
  std::bitset<coord::kMaxSlots> slots;
  const auto add = [&](const coord::Member& member) {
    if (is_here(member) && member.slot.value() < coord::kMaxSlots) slots.set(member.slot.value());
  };
  for (const auto& table : tables_)
    if (table) std::ranges::for_each(table->members, add);
  each_proposed_here(add);
  for (std::uint32_t s = 0; s < slots.size(); ++s)
    if (slots[s]) ring(board_.slot(Slot(s)).bell);
}

}  // namespace lockstep::carrier

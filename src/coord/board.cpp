#include "coord/board.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>

#include "coord/version.h"

namespace lockstep::coord {
namespace {

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kDataAlignment = std::uint64_t{2} << 20;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

constexpr std::uint64_t slots_offset() { return round_up(sizeof(Header), kPage); }

std::uint64_t record_size(std::uint32_t ids_capacity) {
  return round_up(ShareRecord::bytes(ids_capacity), 64);
}

}  // namespace

void label_board(Header& header) {
  header.magic.store(kBoardMagic);
  header.version.store(kProtocolVersion);
}

Status check_board(int memory) {
  static_assert(offsetof(Header, magic) == 0 && offsetof(Header, version) == sizeof(Word));
  std::array<std::uint64_t, 2> words{};
  if (::pread(memory, words.data(), sizeof words, 0) != sizeof words || words[0] != kBoardMagic)
    return Error{ErrorKind::kUsage,
                 "the launcher's shared memory is no board of Lockstep's; is 'lockstep' of another "
                 "version?"};
  if (words[1] != kProtocolVersion) return wrong_version(kProtocolVersion, words[1]);
  return {};
}

bool Header::claim_line(std::uint64_t key) {
  key = std::max<std::uint64_t>(key, 1);  // 0 is a free one
  for (Word& claim : claims) {
    std::uint64_t found = 0;
    if (claim.compare_exchange_strong(found, key)) return true;
    if (found == key) return false;
  }
  return true;
}

void WorkerSlot::claim(WorkerUid owner) {
  // Nobody takes half of it for the old owner's or the new one's.
  uid.store(0, std::memory_order_release);
  const std::array words{
      &phase,          &progress,     &current_txn, &epoch,        &epoch_step,    &item,
      &items,          &applied,      &seen_dead,   &ready_txn,    &heal_stall_ns, &join_stall_ns,
      &abort_seen_ns,  &regrouped_ns, &resumed_ns,  &committed_ns, &busy_ns,       &busy_since_ns,
      &fault_fired_ns, &fault_index,  &signal};
  static_assert(offsetof(WorkerSlot, signal) + sizeof(Word) ==
                    offsetof(WorkerSlot, phase) + words.size() * sizeof(Word),
                "a word is missing in the list");
  for (Word* word : words) word->store(0, std::memory_order_relaxed);
  uid.store(owner.value(), std::memory_order_release);
}

std::uint64_t fixed_bytes() { return slots_offset() + kMaxSlots * sizeof(WorkerSlot); }

std::uint32_t ring_for(std::uint32_t virtual_workers, std::uint32_t ids_capacity) {
  const std::uint64_t per_txn =
      std::max<std::uint64_t>(1, virtual_workers * record_size(ids_capacity));
  const std::uint64_t fit =
      std::bit_floor((std::uint64_t{16} << 20) / std::min(per_txn, std::uint64_t{16} << 20));
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(fit, 64, 1024));
}

Board::Board(void* base, const BoardPlan& plan)
    : base_(static_cast<std::byte*>(base)),
      plan_(plan),
      lines_offset_(fixed_bytes()),
      texts_offset_(round_up(
          lines_offset_ + std::uint64_t{kMaxSlots} * plan.ring * sizeof(CommitLines), kPage)),
      records_offset_(
          round_up(texts_offset_ + std::uint64_t{kMaxSlots} * plan.ring * text_capacity(), kPage)),
      record_bytes_(record_size(plan.ids_capacity)),
      data_offset_(round_up(
          records_offset_ + std::uint64_t{plan.ring} * plan.virtual_workers * record_bytes_,
          kDataAlignment)) {
  assert(std::has_single_bit(plan.ring));
}

WorkerSlot& Board::slot(Slot slot) const {
  assert(slot.value() < kMaxSlots);
  return *reinterpret_cast<WorkerSlot*>(base_ + slots_offset() + slot.value() * sizeof(WorkerSlot));
}

CommitLines& Board::lines(Slot slot, Txn txn) const {
  const std::uint64_t index = std::uint64_t{slot.value()} * plan_.ring + txn.value() % plan_.ring;
  return *reinterpret_cast<CommitLines*>(base_ + lines_offset_ + index * sizeof(CommitLines));
}

char* Board::text(Slot slot, Txn txn, std::uint64_t bytes) const {
  assert(bytes <= text_capacity());
  if (bytes <= kShortTextBytes) return lines(slot, txn).text;
  const std::uint64_t index = std::uint64_t{slot.value()} * plan_.ring + txn.value() % plan_.ring;
  return reinterpret_cast<char*>(base_ + texts_offset_ + index * text_capacity());
}

ShareRecord& Board::record(Txn txn, VirtualWorker v) const {
  const std::uint64_t index =
      txn.value() % plan_.ring * plan_.virtual_workers + static_cast<std::uint64_t>(v.value());
  return *reinterpret_cast<ShareRecord*>(base_ + records_offset_ + index * record_bytes_);
}

bool Board::has_room(Txn txn) const {
  const std::uint64_t from = header().recorded_from.load(std::memory_order_acquire);
  if (from == 0) return true;  // nobody has come in on it
  const std::uint64_t recorded = header().recorded_txn.load(std::memory_order_acquire);
  return txn < no_room_from(Txn(std::max(recorded, from - 1)));
}

void Board::record_from(Txn next) const {
  header().recorded_txn.store(next.value(), std::memory_order_release);
  header().recorded_from.store(next.value() + 1, std::memory_order_release);
}

std::vector<WorkerUid> Board::dead() const {
  const Header& h = header();
  const auto count =
      std::min<std::uint64_t>(h.dead_count.load(std::memory_order_acquire), kMaxDead);
  std::vector<WorkerUid> uids;
  uids.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i)
    uids.emplace_back(h.dead_uid[i].load(std::memory_order_relaxed));
  return uids;
}

namespace {

template <class Cell>
void store_members(Cell& cell, const Table& table) {
  assert(table.members.size() <= kMaxMembers && table.hosts.size() <= kMaxMembers);
  cell.generation.store(table.generation.value(), std::memory_order_relaxed);
  cell.flags.store(table.flags, std::memory_order_relaxed);
  cell.stop_after_step.store(table.stop_after_step, std::memory_order_relaxed);
  cell.count.store(table.members.size(), std::memory_order_relaxed);
  for (std::size_t i = 0; i < table.members.size(); ++i) {
    cell.uid[i].store(table.members[i].uid.value(), std::memory_order_relaxed);
    cell.slot[i].store(table.members[i].slot.value(), std::memory_order_relaxed);
  }
  cell.host_count.store(table.hosts.size(), std::memory_order_relaxed);
  for (std::size_t i = 0; i < table.hosts.size(); ++i)
    cell.host[i].store(uid_of(table.hosts[i].stay, table.hosts[i].workers).value(),
                       std::memory_order_relaxed);
}

template <class Cell>
Table load_members(const Cell& cell) {
  Table table;
  table.generation = Generation(cell.generation.load(std::memory_order_relaxed));
  table.flags = static_cast<std::uint32_t>(cell.flags.load(std::memory_order_relaxed));
  table.stop_after_step = cell.stop_after_step.load(std::memory_order_relaxed);
  const auto count =
      std::min<std::uint64_t>(cell.count.load(std::memory_order_relaxed), kMaxMembers);
  for (std::uint64_t i = 0; i < count; ++i)
    table.members.push_back(
        {WorkerUid(cell.uid[i].load(std::memory_order_relaxed)),
         Slot(static_cast<std::uint32_t>(cell.slot[i].load(std::memory_order_relaxed)))});
  const auto hosts =
      std::min<std::uint64_t>(cell.host_count.load(std::memory_order_relaxed), kMaxMembers);
  for (std::uint64_t i = 0; i < hosts; ++i) {
    const WorkerUid host(cell.host[i].load(std::memory_order_relaxed));
    table.hosts.push_back({stay_of(host), static_cast<std::uint32_t>(host.value())});
  }
  return table;
}

}  // namespace

std::uint64_t ran_ns(const Header& header, std::uint64_t now_ns) {
  const std::uint64_t from = header.ran_from_ns.load(std::memory_order_acquire);
  if (from == 0) return 0;
  return header.ran_ns.load(std::memory_order_relaxed) + (now_ns > from ? now_ns - from : 0);
}

void write_table(TableCell& cell, const Table& table) {
  // The agent reads tables at any time: it must not take a half-written one.
  cell.mark.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  cell.parts.store(word_of(table.parts), std::memory_order_relaxed);
  store_members(cell, table);
  cell.mark.store(table.txn.value() + 1, std::memory_order_release);
}

bool read_table(const TableCell& cell, Txn txn, Table& table) {
  if (cell.mark.load(std::memory_order_acquire) != txn.value() + 1) return false;
  table = load_members(cell);
  table.parts = parts_of(cell.parts.load(std::memory_order_relaxed));
  table.txn = txn;
  std::atomic_thread_fence(std::memory_order_acquire);
  return cell.mark.load(std::memory_order_relaxed) == txn.value() + 1;
}

void write_proposal(ProposalCell& cell, const Table& wish) {
  const std::uint64_t sequence = cell.sequence.load(std::memory_order_relaxed);
  cell.sequence.store(sequence + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  store_members(cell, wish);
  cell.sequence.store(sequence + 2, std::memory_order_release);
}

Table read_proposal(const ProposalCell& cell) {
  for (;;) {
    const std::uint64_t before = cell.sequence.load(std::memory_order_acquire);
    if (before % 2 != 0) continue;
    Table table = load_members(cell);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (cell.sequence.load(std::memory_order_relaxed) == before) return table;
  }
}

}  // namespace lockstep::coord

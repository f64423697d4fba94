#include "simulation/world.h"

namespace lockstep::simulation {

std::uint64_t Plan::apply(std::uint64_t state, std::span<const Cell> chunks, const Cell& buffers) {
  for (const Cell& chunk : chunks) state = mix(state, chunk.value);
  return mix(state, buffers.value);
}

std::vector<std::uint64_t> Plan::reference() const {
  std::vector<std::uint64_t> states{42};
  for (std::uint64_t txn = 0; txn < transactions; ++txn) {
    const std::uint64_t state = states.back();
    if (!is_step(txn)) {
      states.push_back(state);
      continue;
    }
    std::uint64_t sum = 0;
    for (std::uint32_t v = 0; v < virtual_workers; ++v) sum = mix(sum, share(state, txn, v));
    std::array<Cell, kChunks> chunks;
    for (std::uint32_t c = 0; c < kChunks; ++c) chunks[c].value = chunk(sum, c);
    states.push_back(apply(state, chunks, {0, buffers(share(state, txn, 0))}));
  }
  return states;
}

SimBoard::SimBoard(const Plan& plan, const BoardSizes& sizes)
    : tables(sizes.tables),
      buffers(sizes.buffers),
      evaluations(sizes.evaluations, std::vector<Cell>(plan.batches)),
      recorded(plan.virtual_workers) {}

std::uint64_t SimBoard::table_mark(std::uint64_t txn) const {
  const auto& cell = tables[txn % tables.size()];
  return cell ? cell->txn.value() + 1 : 0;
}

const coord::Table* SimBoard::table(std::uint64_t txn) const {
  return table_mark(txn) == txn + 1 ? &*tables[txn % tables.size()] : nullptr;
}

void SimBoard::write_table(const coord::Table& table) {
  check_members(table.members);
  require(history.emplace(table.txn.value(), table).second,
          "the table of transaction " + std::to_string(table.txn.value()) + " is written twice");
  require(table.members.size() <= recorded.size(), "a table has more members than shares");
  tables[table.txn.value() % tables.size()] = table;
}

void check_members(const std::vector<coord::Member>& members) {
  std::set<std::uint64_t> uids;
  std::set<std::uint32_t> slots;
  for (const coord::Member& member : members) {
    require(uids.insert(member.uid.value()).second, "a worker has two ranks in one table");
    require(slots.insert(member.slot.value()).second, "two members of one table share a slot");
  }
  require(!members.empty() && members.size() <= coord::kMaxWorkers,
          "a table has no member, or too many");
}

}  // namespace lockstep::simulation

#include "simulation/world.h"

namespace lockstep::simulation {

Plan make_plan(Random& random, std::uint64_t seed) {
  Plan plan;
  plan.virtual_workers = static_cast<std::uint32_t>(random.between(1, 8));
  plan.transactions = random.between(5, 30);
  plan.checkpoint_every = random.between(2, 8);
  plan.epoch = random.chance(0.6) ? random.between(2, 5) : 0;
  if (plan.epoch > 2 && seed % 5 == 0) plan.evaluations = 2;
  plan.batches = static_cast<std::uint32_t>(random.between(1, random.chance(0.5) ? 1 : 6));
  if (seed % 6 != 2) return plan;
  plan.updates = 2 + seed / 6 % 3;
  if (plan.epoch != 0)
    plan.epoch = (plan.epoch - plan.evaluations) * plan.updates + plan.evaluations;
  while (!plan.is_border(plan.transactions)) ++plan.transactions;
  if (seed % 12 != 8) return plan;
  plan.asks_to_end = plan.transactions / 2;  // in a step's first update
  while (!plan.is_step(plan.asks_to_end) || !plan.is_border(plan.asks_to_end)) ++plan.asks_to_end;
  return plan;
}

std::uint64_t Plan::apply(std::uint64_t state, std::uint64_t txn, std::span<const Cell> chunks,
                          const Cell& buffers, std::uint64_t generator) const {
  for (std::uint32_t c = 0; c < chunks.size(); ++c)
    if (has_sum(txn, c)) state = mix(state, chunks[c].value);
  return mix(mix(state, buffers.value), generator);
}

Plan::Reference Plan::reference() const {
  Reference all;
  all.rows.assign(1, Rows(virtual_workers));
  for (std::uint64_t txn = 0; txn < transactions; ++txn) {
    const std::uint64_t state = begun(all.states.back(), txn);
    Rows rows = all.rows.back();
    std::uint64_t sum = 0, losses = 0, first = 0;
    for (std::uint32_t v = 0; v < virtual_workers; ++v) {
      const std::uint64_t own = share(state, rows[v], txn, v);
      if (v == 0) first = own;
      sum = mix(sum, own);
      losses = mix(losses, loss(own));
      rows[v] = carry(rows[v], own);
    }
    std::array<Cell, kChunks> chunks;
    for (std::uint32_t c = 0; c < kChunks; ++c) chunks[c].value = chunk(sum, c);
    const bool step = is_step(txn);
    const std::uint64_t memory = all.memories.back();
    const auto updated = [&] { return apply(state, txn, chunks, {0, buffers(first)}, seed(txn)); };
    all.states.push_back(step ? hook(updated(), rows) : state);
    all.rows.push_back(step ? rows : all.rows.back());
    all.memories.push_back(step ? remember(memory, txn, losses) : memory);
  }
  return all;
}

SimBoard::SimBoard(const Plan& plan, const BoardSizes& sizes)
    : tables(sizes.tables),
      left_out_marks(sizes.left_out),
      buffers(sizes.buffers),
      rows(sizes.rows, std::vector<Cell>(plan.virtual_workers)),
      evaluations(sizes.evaluations, std::vector<Cell>(plan.batches)),
      records(coord::kGenerations, std::vector<Cell>(plan.virtual_workers)) {}

std::uint64_t SimBoard::table_mark(std::uint64_t txn) const {
  const auto& cell = tables[txn % tables.size()];
  return cell ? cell->txn.value() + 1 : 0;
}

const coord::Table* SimBoard::table(std::uint64_t txn) const {
  return table_mark(txn) == txn + 1 ? &*tables[txn % tables.size()] : nullptr;
}

void SimBoard::write_table(const coord::Table& table, bool border) {
  check_members(table.members);
  if (!border) {
    const coord::Table& before = history.at(table.txn.value() - 1);
    require((table.flags & coord::kStop) == 0, "the run stops within a step");
    for (const coord::Member& member : table.members)
      require(before.has(member.uid), "a newcomer comes into a step");
    for (const coord::Member& member : before.members)
      require(table.has(member.uid) || is_dead(member.uid), "somebody leaves a step that it began");
  }
  require(history.emplace(table.txn.value(), table).second,
          "the table of transaction " + std::to_string(table.txn.value()) + " is written twice");
  require(table.members.size() <= records.front().size(), "a table has more members than shares");
  tables[table.txn.value() % tables.size()] = table;
}

void check_members(const std::vector<coord::Member>& members) {
  std::set<std::uint64_t> uids;
  std::set<std::uint32_t> slots;
  for (const coord::Member& member : members) {
    require(uids.insert(member.uid.value()).second, "a worker has two ranks in one table");
    require(slots.insert(member.slot.value()).second, "two members of one table share a slot");
  }
  require(!members.empty() && members.size() <= coord::kMaxMembers,
          "a table has no member, or too many");
}

}  // namespace lockstep::simulation

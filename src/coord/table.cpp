#include "coord/table.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace lockstep::coord {

bool Table::has(WorkerUid uid) const {
  return std::any_of(members.begin(), members.end(),
                     [&](const Member& member) { return member.uid == uid; });
}

std::vector<Node> cover(std::uint32_t first, std::uint32_t count, std::uint32_t virtual_workers) {
  std::vector<Node> nodes;
  const std::uint32_t end = first + count;
  // At the right edge the padding counts as covered, so that the last block folds as far as it can.
  const std::uint32_t padded_end = end == virtual_workers ? std::bit_ceil(virtual_workers) : end;
  while (first < end) {
    std::uint32_t level = first == 0 ? 31u : static_cast<std::uint32_t>(std::countr_zero(first));
    while ((std::uint64_t{1} << level) > padded_end - first) --level;
    nodes.push_back({level, first >> level});
    first += 1u << level;
  }
  return nodes;
}

Ownership::Ownership(const Table& table, std::uint32_t items, std::span<const WorkerUid> dead)
    : items_(items),
      alive_(table.members.size(), true),
      owner_(items),
      items_of_(table.members.size()) {
  const auto count = static_cast<std::uint32_t>(table.members.size());
  assert(count > 0 && count <= kMaxWorkers);
  live_ = count;
  std::uint32_t first = 0;
  for (std::uint32_t m = 0; m < count; ++m) {
    const std::uint32_t size = items / count + (m < items % count ? 1 : 0);
    block_first_.push_back(first);
    block_size_.push_back(size);
    for (std::uint32_t i = first; i < first + size; ++i) {
      owner_[i] = m;
      items_of_[m].push_back(i);
    }
    first += size;
  }
  for (const WorkerUid uid : dead) {
    const auto found = std::find_if(table.members.begin(), table.members.end(),
                                    [&](const Member& member) { return member.uid == uid; });
    if (found == table.members.end()) continue;
    const auto lost = static_cast<std::uint32_t>(found - table.members.begin());
    if (!alive_[lost]) continue;
    alive_[lost] = false;
    --live_;
    death_order_.push_back(lost);
    std::vector<std::uint32_t> live;
    for (std::uint32_t m = 0; m < count; ++m)
      if (alive_[m]) live.push_back(m);
    live_after_.push_back(live);
    if (live.empty()) break;
    std::vector<std::uint32_t> orphans = std::move(items_of_[lost]);
    items_of_[lost].clear();
    std::sort(orphans.begin(), orphans.end());
    for (const std::uint32_t item : orphans) {
      const std::uint32_t heir =
          *std::min_element(live.begin(), live.end(), [&](std::uint32_t a, std::uint32_t b) {
            return items_of_[a].size() < items_of_[b].size();
          });
      owner_[item] = heir;
      items_of_[heir].push_back(item);
    }
  }
}

std::uint32_t Ownership::first_live() const {
  const auto it = std::find(alive_.begin(), alive_.end(), true);
  assert(it != alive_.end());
  return static_cast<std::uint32_t>(it - alive_.begin());
}

std::vector<Piece> Ownership::pieces() const {
  std::vector<Piece> pieces;
  for (std::uint32_t m = 0; m < items_of_.size(); ++m) {
    if (!alive_[m]) continue;
    for (const Node node : cover(block_first_[m], block_size_[m], items_))
      pieces.push_back({node, m});
    for (std::size_t i = block_size_[m]; i < items_of_[m].size(); ++i)
      pieces.push_back({{0, items_of_[m][i]}, m});
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.node.first_leaf() < b.node.first_leaf();
  });
  return pieces;
}

std::uint32_t Ownership::chunk_owner(std::uint32_t chunk, std::uint32_t chunks,
                                     std::uint32_t bucket) const {
  const auto count = static_cast<std::uint32_t>(alive_.size());
  std::uint32_t owner = chunks < count
                            ? (chunk + bucket) % count
                            : static_cast<std::uint32_t>(std::uint64_t{chunk} * count / chunks);
  for (std::size_t i = 0; i < death_order_.size(); ++i) {
    if (death_order_[i] != owner || live_after_[i].empty()) continue;
    owner = live_after_[i][chunk % live_after_[i].size()];
  }
  return owner;
}

}  // namespace lockstep::coord

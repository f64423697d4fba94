#include "link/owners.h"

#include <algorithm>

namespace lockstep::link {
namespace {

// A host in no table: Ownership then looks at hosts alone.
constexpr Stay kNobody{0xffff, 0};

}  // namespace

Owners::Owners(const coord::Table& table, const Contents& contents,
               std::span<const WorkerUid> deaths)
    : contents_(narrowed(contents, table.parts)) {
  const auto dead = [&](const coord::Host& host) {
    return std::ranges::find(deaths, coord::death_of(host.stay)) != deaths.end();
  };
  if (!table.hosts.empty() && std::ranges::all_of(table.hosts, dead)) return;
  const coord::Ownership all(table, contents_.shares(), kNobody, deaths);
  const auto stay = [&](std::uint32_t member) { return coord::stay_of(table.members[member].uid); };
  first_ = stay(*all.first_live());
  for (std::uint32_t i = 0; i < contents_.shares(); ++i) shares_.push_back(stay(all.owner(i)));
  for (std::uint32_t b = 0; b < contents_.chunks.size(); ++b) {
    std::vector<Stay>& owners = chunks_.emplace_back();
    for (std::uint32_t c = 0; c < contents_.chunks[b]; ++c)
      owners.push_back(stay(all.chunk_owner(c, contents_.chunks[b], b)));
  }
  for (const coord::Piece& piece : all.pieces()) nodes_[stay(piece.member)].push_back(piece.node);
}

std::optional<Stay> Owners::owner(const Item& item) const {
  switch (item.kind) {
    case Kind::kTable:
      return first_;
    case Kind::kChunk:
      if (item.bucket >= chunks_.size() || item.index >= chunks_[item.bucket].size()) return {};
      return chunks_[item.bucket][item.index];
    default:
      if (item.index >= shares_.size()) return {};
      return shares_[item.index];
  }
}

const std::vector<coord::Node>& Owners::nodes(Stay host) const {
  static const std::vector<coord::Node> kNone;
  const auto found = nodes_.find(host);
  return found == nodes_.end() ? kNone : found->second;
}

const Owners& BoardOwners::at(const Marks& marks, std::uint64_t txn) {
  while (!entries_.empty() && entries_.begin()->first + coord::kTables < txn)
    entries_.erase(entries_.begin());
  Entry& entry = entries_[txn];
  const std::span<const WorkerUid> deaths = marks.deaths();
  if (entry.owners == nullptr || entry.deaths != deaths.size())
    entry = {deaths.size(),
             std::make_unique<const Owners>(*marks.table(txn), plan_.contents(txn), deaths)};
  return *entry.owners;
}

bool takes_part(const coord::Table& table, Stay host) {
  return std::ranges::any_of(table.hosts,
                             [host](const coord::Host& one) { return one.stay == host; });
}

}  // namespace lockstep::link

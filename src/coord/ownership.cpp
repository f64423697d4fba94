#include "coord/ownership.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

namespace lockstep::coord {
namespace {

std::vector<std::uint32_t> ones(std::size_t count) { return std::vector<std::uint32_t>(count, 1); }

std::vector<std::uint32_t> weights_of(const Table& table) {
  std::vector<std::uint32_t> weights;
  for (const Host& host : table.hosts) weights.push_back(std::max(host.workers, 1U));
  return weights.empty() ? ones(1) : weights;
}

// Of a table's hosts. As many as there are: it is not in it.
class HostPlaces {
 public:
  explicit HostPlaces(const Table& table) {
    for (const Host& host : table.hosts)
      sorted_.emplace_back(host.stay, static_cast<std::uint32_t>(sorted_.size()));
    std::sort(sorted_.begin(), sorted_.end());
  }
  std::uint32_t of(Stay stay) const {
    if (sorted_.empty()) return 0;
    const auto found = std::lower_bound(sorted_.begin(), sorted_.end(), std::pair(stay, 0U));
    return found != sorted_.end() && found->first == stay
               ? found->second
               : static_cast<std::uint32_t>(sorted_.size());
  }

 private:
  std::vector<std::pair<Stay, std::uint32_t>> sorted_;
};

// Of `count` holders, who has this chunk of so many.
std::uint32_t holder_of_chunk(std::uint32_t chunk, std::uint32_t chunks, std::uint32_t bucket,
                              std::uint32_t count) {
  return chunks < count ? (chunk + bucket) % count
                        : static_cast<std::uint32_t>(std::uint64_t{chunk} * count / chunks);
}

// The first chunk that it has, if there are as many as holders.
std::uint32_t first_chunk(std::uint32_t holder, std::uint32_t chunks, std::uint32_t count) {
  return static_cast<std::uint32_t>((std::uint64_t{holder} * chunks + count - 1) / count);
}

}  // namespace

Blocks::Blocks(std::uint32_t first, std::uint32_t items, std::span<const std::uint32_t> weights)
    : weights_(weights.begin(), weights.end()), live_(weights.size()), items_(weights.size()) {
  std::iota(live_.begin(), live_.end(), 0U);
  const std::uint32_t seats = std::accumulate(weights_.begin(), weights_.end(), 0U);
  const std::uint32_t each = seats > 0 ? items / seats : 0, longer = seats > 0 ? items % seats : 0;
  std::uint32_t seat = 0;
  for (std::uint32_t h = 0; h < weights_.size(); ++h) {
    const std::uint32_t next = seat + weights_[h];
    const std::uint32_t size = weights_[h] * each + std::min(next, longer) - std::min(seat, longer);
    first_.push_back(first);
    size_.push_back(size);
    items_[h].resize(size);
    std::iota(items_[h].begin(), items_[h].end(), first);
    first += size;
    seat = next;
  }
}

bool Blocks::alive(std::uint32_t holder) const {
  return std::binary_search(live_.begin(), live_.end(), holder);
}

std::vector<std::uint32_t> Blocks::lose(std::uint32_t holder) {
  std::erase(live_, holder);
  last_lost_ = holder;
  if (live_.empty()) return {};
  std::vector<std::uint32_t> items = std::exchange(items_[holder], {});
  std::sort(items.begin(), items.end());
  return items;
}

std::uint32_t Blocks::give(std::uint32_t item) {
  const auto fewest =
      std::min_element(live_.begin(), live_.end(), [this](std::uint32_t a, std::uint32_t b) {
        return items_[a].size() * weights_[b] < items_[b].size() * weights_[a];
      });
  const std::uint32_t heir = fewest == live_.end() ? last_lost_ : *fewest;
  items_[heir].push_back(item);
  return heir;
}

Ownership::Ownership(const Table& table, std::uint32_t items, Stay self,
                     std::span<const WorkerUid> deaths)
    : items_(items),
      alive_(table.members.size(), true),
      host_of_(items),
      owner_(items),
      hosts_(0, items, weights_of(table)) {
  assert(!table.members.empty() && table.members.size() <= kMaxMembers);
  const HostPlaces hosts(table);
  self_ = hosts.of(self);
  members_of_.resize(std::max<std::size_t>(table.hosts.size(), 1));
  for (std::uint32_t m = 0; m < table.members.size(); ++m) {
    const std::uint32_t host = hosts.of(stay_of(table.members[m].uid));
    assert(host < members_of_.size());
    host_of_member_.push_back(host);
    members_of_[host].push_back(m);
  }
  for (std::uint32_t h = 0; h < members_of_.size(); ++h) {
    assert(!members_of_[h].empty());
    inside_.emplace_back(hosts_.first(h), hosts_.size(h), ones(members_of_[h].size()));
    for (std::uint32_t i = 0; i < members_of_[h].size(); ++i)
      for (const std::uint32_t item : inside_[h].items_of(i)) {
        host_of_[item] = h;
        owner_[item] = members_of_[h][i];
      }
  }
  for (const WorkerUid death : deaths) {
    const std::uint32_t host = hosts.of(stay_of(death));
    if (host == members_of_.size() || !hosts_.alive(host)) continue;
    if (death == death_of(stay_of(death))) {
      lose(host, std::nullopt);
      continue;
    }
    if (host != self_) continue;
    const std::vector<std::uint32_t>& here = members_of_[host];
    const auto lost = std::find_if(here.begin(), here.end(), [&](std::uint32_t member) {
      return table.members[member].uid == death;
    });
    if (lost != here.end() && alive_[*lost]) lose(host, *lost);
  }
}

std::uint32_t Ownership::place_of(std::uint32_t member) const {
  return member - members_of_[host_of_member_[member]].front();
}

void Ownership::give(std::uint32_t item, std::uint32_t host) {
  host_of_[item] = host;
  owner_[item] = members_of_[host][inside_[host].give(item)];
}

void Ownership::lose(std::uint32_t host, std::optional<std::uint32_t> member) {
  if (member) {
    alive_[*member] = false;
    for (const std::uint32_t item : inside_[host].lose(place_of(*member))) give(item, host);
  } else {
    for (const std::uint32_t m : members_of_[host]) alive_[m] = false;
    for (const std::uint32_t item : hosts_.lose(host)) give(item, hosts_.give(item));
  }
  Loss loss{host, member, hosts_.live(), {}};
  if (self_ < members_of_.size())
    for (const std::uint32_t i : inside_[self_].live()) loss.here.push_back(members_of_[self_][i]);
  losses_.push_back(std::move(loss));
}

std::uint32_t Ownership::live_count() const {
  if (self_ == members_of_.size() || !hosts_.alive(self_)) return 0;
  return static_cast<std::uint32_t>(inside_[self_].live().size());
}

std::optional<std::uint32_t> Ownership::first_live() const {
  if (hosts_.live().empty()) return std::nullopt;
  const std::uint32_t host = hosts_.live().front();
  const std::vector<std::uint32_t>& live = inside_[host].live();
  if (live.empty()) return std::nullopt;
  return members_of_[host][live.front()];
}

const std::vector<std::uint32_t>& Ownership::items_of(std::uint32_t member) const {
  static const std::vector<std::uint32_t> kNone;
  const std::uint32_t host = host_of_member_[member];
  return hosts_.alive(host) ? inside_[host].items_of(place_of(member)) : kNone;
}

std::uint32_t Ownership::block_size(std::uint32_t member) const {
  return inside_[host_of_member_[member]].size(place_of(member));
}

std::uint32_t Ownership::block_first(std::uint32_t member) const {
  return inside_[host_of_member_[member]].first(place_of(member));
}

std::vector<Piece> Ownership::pieces() const {
  std::vector<Piece> pieces;
  const auto add = [&](const Blocks& blocks, std::uint32_t holder, std::uint32_t member) {
    const std::uint32_t size = blocks.size(holder);
    for (const Node node : cover(blocks.first(holder), size, items_))
      pieces.push_back({node, member});
    for (const std::uint32_t item : std::span(blocks.items_of(holder)).subspan(size))
      pieces.push_back({{0, item}, member});
  };
  for (const std::uint32_t host : hosts_.live()) {
    if (host != self_) {
      add(hosts_, host, members_of_[host].front());
      continue;
    }
    for (const std::uint32_t i : inside_[host].live()) add(inside_[host], i, members_of_[host][i]);
  }
  std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) {
    return a.node.first_leaf() < b.node.first_leaf();
  });
  return pieces;
}

std::vector<Node> Ownership::folded() const {
  if (members_of_.size() == 1 || self_ == members_of_.size()) return {};
  return cover(hosts_.first(self_), hosts_.size(self_), items_);
}

bool Ownership::in_block(std::uint32_t item) const {
  return self_ < members_of_.size() && item >= hosts_.first(self_) &&
         item - hosts_.first(self_) < hosts_.size(self_);
}

// As if everybody lived.
Ownership::ChunkPlace Ownership::place_of_chunk(std::uint32_t chunk, std::uint32_t chunks,
                                                std::uint32_t bucket) const {
  const auto hosts = static_cast<std::uint32_t>(members_of_.size());
  const std::uint32_t host = holder_of_chunk(chunk, chunks, bucket, hosts);
  if (chunks < hosts) return {host, 0, 1};
  const std::uint32_t first = first_chunk(host, chunks, hosts);
  return {host, chunk - first, first_chunk(host + 1, chunks, hosts) - first};
}

std::uint32_t Ownership::chunk_owner(std::uint32_t chunk, std::uint32_t chunks,
                                     std::uint32_t bucket) const {
  std::uint32_t host = place_of_chunk(chunk, chunks, bucket).host;
  for (const Loss& loss : losses_)
    if (!loss.member && loss.host == host && !loss.hosts.empty())
      host = loss.hosts[chunk % loss.hosts.size()];
  return host == self_ ? chunk_reader(chunk, chunks, bucket) : members_of_[host].front();
}

std::uint32_t Ownership::chunk_reader(std::uint32_t chunk, std::uint32_t chunks,
                                      std::uint32_t bucket) const {
  assert(self_ < members_of_.size());
  const std::vector<std::uint32_t>& members = members_of_[self_];
  const auto count = static_cast<std::uint32_t>(members.size());
  const ChunkPlace place = place_of_chunk(chunk, chunks, bucket);
  std::uint32_t reader = members[holder_of_chunk(place.chunk, place.chunks, bucket, count)];
  for (const Loss& loss : losses_)
    if (loss.member == reader && !loss.here.empty()) reader = loss.here[chunk % loss.here.size()];
  return reader;
}

}  // namespace lockstep::coord

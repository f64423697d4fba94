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

// As many as there are: none.
std::uint32_t index_of(const Table& table, Stay stay) {
  if (table.hosts.empty()) return 0;
  const auto found = std::find_if(table.hosts.begin(), table.hosts.end(),
                                  [stay](const Host& host) { return host.stay == stay; });
  return static_cast<std::uint32_t>(found - table.hosts.begin());
}

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
      self_(index_of(table, self)),
      alive_(table.members.size(), true),
      host_of_(items),
      owner_(items),
      hosts_(0, items, weights_of(table)) {
  assert(!table.members.empty() && table.members.size() <= kMaxMembers);
  members_of_.resize(std::max<std::size_t>(table.hosts.size(), 1));
  for (std::uint32_t m = 0; m < table.members.size(); ++m) {
    const std::uint32_t host = index_of(table, stay_of(table.members[m].uid));
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
    const std::uint32_t host = index_of(table, stay_of(death));
    if (host == members_of_.size() || !hosts_.alive(host)) continue;
    if (death == death_of(stay_of(death))) {
      lose(host, std::nullopt);
      continue;
    }
    const auto found = std::find_if(table.members.begin(), table.members.end(),
                                    [&](const Member& member) { return member.uid == death; });
    const auto lost = static_cast<std::uint32_t>(found - table.members.begin());
    if (found != table.members.end() && host == self_ && alive_[lost]) lose(host, lost);
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

std::uint32_t Ownership::first_live() const {
  assert(!hosts_.live().empty());
  const std::uint32_t host = hosts_.live().front();
  assert(!inside_[host].live().empty());
  return members_of_[host][inside_[host].live().front()];
}

const std::vector<std::uint32_t>& Ownership::items_of(std::uint32_t member) const {
  static const std::vector<std::uint32_t> kNone;
  const std::uint32_t host = host_of_member_[member];
  return hosts_.alive(host) ? inside_[host].items_of(place_of(member)) : kNone;
}

std::uint32_t Ownership::block_size(std::uint32_t member) const {
  return inside_[host_of_member_[member]].size(place_of(member));
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

const std::vector<std::uint32_t>& Ownership::live_in(std::uint32_t host, const Loss& after) const {
  return host == self_ ? after.here : members_of_[host];
}

std::uint32_t Ownership::chunk_owner(std::uint32_t chunk, std::uint32_t chunks,
                                     std::uint32_t bucket) const {
  const auto hosts = static_cast<std::uint32_t>(members_of_.size());
  std::uint32_t host = holder_of_chunk(chunk, chunks, bucket, hosts);
  // Its own ones are numbered from 0 inside a host.
  const bool alone = chunks < hosts;
  const std::uint32_t first = alone ? chunk : first_chunk(host, chunks, hosts);
  const std::uint32_t own = alone ? 1 : first_chunk(host + 1, chunks, hosts) - first;
  const std::vector<std::uint32_t>& members = members_of_[host];
  std::uint32_t owner = members[holder_of_chunk(chunk - first, own, bucket,
                                                static_cast<std::uint32_t>(members.size()))];
  for (const Loss& loss : losses_) {
    if (loss.host != host || (loss.member && *loss.member != owner) || loss.hosts.empty()) continue;
    if (!loss.member) {
      host = loss.hosts[chunk % loss.hosts.size()];
      owner = members_of_[host].front();  // should none of them live
    }
    const std::vector<std::uint32_t>& live = live_in(host, loss);
    if (!live.empty()) owner = live[chunk % live.size()];
  }
  return owner;
}

}  // namespace lockstep::coord

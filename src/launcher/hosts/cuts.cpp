#include "launcher/hosts/cuts.h"

#include <algorithm>

#include "quorum/keep.h"

namespace lockstep::launcher {
namespace {

bool contains(const std::vector<coord::HostIndex>& all, coord::HostIndex one) {
  return std::ranges::find(all, one) != all.end();
}

}  // namespace

void Cuts::hear(coord::HostIndex host, const std::vector<coord::HostIndex>& unreached,
                std::uint64_t now) {
  unreached_[host] = unreached;
  std::erase_if(since_, [&](const auto& one) {
    const auto [low, high] = one.first;
    return (low == host && !contains(unreached, high)) ||
           (high == host && !contains(unreached, low));
  });
  for (const coord::HostIndex other : unreached) {
    const auto said = unreached_.find(other);
    if (other != host && said != unreached_.end() && contains(said->second, host))
      since_.try_emplace(std::minmax(host, other), now);
  }
}

std::vector<Cuts::Going> Cuts::going(const quorum::Set& set, const quorum::Ties& ties,
                                     const coord::RunFacts& facts, std::uint64_t now) const {
  quorum::Members in_table;
  std::map<std::size_t, quorum::Member> by_host;
  for (const quorum::Member& member : set.members) {
    by_host[member.host] = member;
    if (facts.hosts[member.host].standing == coord::Standing::kHere) in_table.insert(member);
  }
  quorum::Cut cut;
  bool is_due = false;
  for (const auto& [pair, since] : since_) {
    if (!by_host.contains(pair.first) || !by_host.contains(pair.second)) continue;
    is_due = is_due || now - since >= limit_;
    if (now - since >= limit_ / 2) cut.emplace_back(by_host[pair.first], by_host[pair.second]);
  }
  if (!is_due) return {};
  const quorum::Members kept = quorum::to_keep(set, cut, in_table, ties);
  std::vector<Going> going;
  for (const auto& [host, one] : by_host) {
    if (kept.empty() || kept.contains(one)) continue;
    const auto why = std::ranges::find_if(
        cut, [&goes = one](const auto& pair) { return pair.first == goes || pair.second == goes; });
    if (why == cut.end()) continue;
    going.push_back({host, why->first == one ? why->second.host : why->first.host});
  }
  return going;
}

bool is_news(const Why& going, const std::set<std::size_t>& known) {
  return std::ranges::any_of(going,
                             [&known](const auto& one) { return !known.contains(one.first); });
}

Why who_goes(const Why& lost, const Why& cut_off, const std::set<std::size_t>& known,
             const std::function<bool(const std::set<std::size_t>&)>& may_go) {
  Why all = lost;
  all.insert(cut_off.begin(), cut_off.end());
  for (const Why* out : {&lost, static_cast<const Why*>(&all)}) {
    std::set<std::size_t> gone = known;
    for (const auto& [host, why] : *out) gone.insert(host);
    if (is_news(*out, known) && may_go(gone)) return *out;
  }
  return {};
}

}  // namespace lockstep::launcher

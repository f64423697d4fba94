// What the leader says of its nodes, for people.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/listed.h"
#include "base/seconds.h"
#include "nodes/leader.h"

namespace lockstep::nodes {
namespace {

constexpr std::size_t kMostNamed = 8;

struct List {
  std::vector<std::string> first;
  std::size_t count = 0;
  void add(std::string name) {
    if (++count <= kMostNamed) first.push_back(std::move(name));
  }
  std::string all() const { return listed(first, count); }
};

}  // namespace

std::string Leader::name(int rank) const {
  const RankState& state = ranks_.at(rank);
  return "node " + std::to_string(rank) + (state.taken ? " (" + state.row.address + ")" : "");
}

// Of whom nothing has come since the attempt was ended, although all were told so.
std::string Leader::unheard(std::uint64_t now) const {
  constexpr int kMost = 3;
  std::string text;
  int count = 0;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const RankState& state = ranks_.at(rank);
    if (state.lost || state.clear || state.heard_at >= cause_.since() || ++count > kMost) continue;
    text += "; " + name(rank) + " has not been heard for " + seconds(now - state.heard_at);
  }
  return count > kMost ? text + "; " + std::to_string(count - kMost) + " more likewise" : text;
}

// Where ranks are given by arrival nobody has those that are free: these are counted.
std::string Leader::missing_nodes(std::uint64_t now) const {
  List nodes, here;
  std::size_t newcomers = 0;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const RankState& state = ranks_.at(rank);
    if (state.link)
      here.add(state.row.host);
    else if (state.taken)
      nodes.add("node " + std::to_string(rank) + " (" + state.row.address + ", silent for " +
                seconds(now - state.heard_at) + ")");
    else if (own_.rank)
      nodes.add("node " + std::to_string(rank) + " (never seen)");
    else
      ++newcomers;
  }
  for (const Link link : waiting_)
    if (newcomers > 0) --newcomers, here.add(links_.at(link).word.row.host);
  std::string text = nodes.all();
  if (newcomers > 0)
    text += (text.empty() ? "" : ", ") + std::to_string(newcomers) +
            (newcomers == 1 ? " more node (" : " more nodes (") + std::to_string(here.count) +
            " of " + std::to_string(ranks_.size()) + (here.count == 1 ? " is" : " are") +
            " here: " + here.all() + ")";
  return text.empty() ? "workers of the last attempt" : text;
}

std::string Leader::missing(std::uint64_t now) const { return missing_nodes(now) + let_in(now); }

std::string Leader::waiting_for(std::uint64_t now) const {
  if (ranks_.all_here()) return missing(now);
  const std::uint64_t until = waits_since_ + rules_.join_timeout;
  return missing_nodes(now) + ", " + seconds(until - std::min(until, now)) +
         " left (--rdzv-conf join_timeout)" + let_in(now);
}

// Who waits for a lost node's rank.
std::string Leader::let_in(std::uint64_t now) const {
  List all;
  std::uint64_t soonest = ~std::uint64_t{0};  // that a lost one's is free
  for (int rank = 0; rank < ranks_.size(); ++rank)
    if (const RankState& state = ranks_.at(rank); state.lost)
      soonest = std::min(soonest, state.heard_at + 3 * rules_.limit);
  for (const auto& [link, node] : links_) {
    if (node.rank >= 0 || !node.refusal.empty() || is_member(link)) continue;
    const Row& row = node.word.row;
    const bool given = row.rank && *row.rank >= 0 && *row.rank < ranks_.size();
    const std::uint64_t at = given ? ranks_.at(*row.rank).heard_at + 3 * rules_.limit : soonest;
    all.add(row.host + " (" + row.address + ")" +
            (given ? " for rank " + std::to_string(*row.rank) : "") + " in " +
            seconds(at - std::min(at, now)));
  }
  return all.count == 0 ? "" : "; waits to be let in: " + all.all();
}

}  // namespace lockstep::nodes

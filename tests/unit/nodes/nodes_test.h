// A leader and nodes of a run, for tests of nodes/.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "nodes/leader.h"
#include "nodes/node.h"

namespace lockstep::nodes {

using Phase = Leader::Phase;

inline constexpr std::uint64_t kSecond = 1'000'000'000;
inline constexpr std::uint64_t kL = 15 * kSecond;

inline Row row(int machine, Incarnation incarnation, std::optional<int> rank = {}) {
  return {rank,
          "10.0.0." + std::to_string(machine),
          "machine" + std::to_string(machine),
          incarnation,
          2,
          "default",
          "host" + std::to_string(machine)};
}

// A leader and nodes with one clock; words take no time unless a node is cut off.
class NodesTest : public testing::Test {
 protected:
  void begin(Rules rules, std::optional<int> own_rank = {}) {
    rules_ = std::move(rules);
    rules_.endpoint = "host0:29400";
    leader.emplace(rules_, row(0, 100, own_rank), 7, Leader::Record{}, now);
    add(kOwnLink, row(0, 100, own_rank));
  }
  Node& add(Link link, const Row& who) {
    Node& node = nodes.try_emplace(link, rules_, who, now).first->second;
    node.has_taken_lock();
    return node;
  }
  void talk() {
    for (int i = 0; i < 4; ++i)
      for (auto& [link, node] : nodes) {
        if (cut.contains(link)) continue;
        leader->heard(link, node.word(now), now);
        node.heard(leader->word_for(link, now), now);
        if (const Attempt attempt = node.wish().serve; attempt != 0)
          node.serves({attempt, "10.0.0.1", 29'500, true});
        ++now;
      }
    for (auto& [link, node] : nodes)
      if (node.wish().run != 0) node.workers_started();
  }
  // Three nodes run; then the third is cut off, and its connection closes.
  void lose_the_third(Rules rules) {
    begin(rules);
    add(1, row(1, 101));
    add(2, row(2, 102));
    talk();
    cut.insert(2);
    leader->closed(2, now);
    pass(3 * kSecond);
  }
  // Four times a second.
  void pass(std::uint64_t time) {
    for (const std::uint64_t end = now + time; now < end;) {
      now += kSecond / 4;
      leader->tick(now);
      for (auto& [link, node] : nodes) node.tick(now);
      talk();
    }
  }

  Rules rules_;
  std::uint64_t now = kSecond;
  std::optional<Leader> leader;
  std::map<Link, Node> nodes;
  std::set<Link> cut;
};

}  // namespace lockstep::nodes

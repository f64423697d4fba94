// What is due when: one time for each key. A time that only moves on need not be told at each move:
// whoever takes what is due looks again, and sets it anew. Costs O(log N). Threads: one at a time.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace lockstep::nodes {

template <class Key>
class Deadlines {
 public:
  void set(const Key& key, std::uint64_t at) {
    drop(key);
    at_.emplace(key, at);
    order_.emplace(at, key);
  }
  // As set(), if that is earlier.
  void advance(const Key& key, std::uint64_t at) {
    const auto found = at_.find(key);
    if (found == at_.end() || at < found->second) set(key, at);
  }
  void drop(const Key& key) {
    const auto found = at_.find(key);
    if (found == at_.end()) return;
    order_.erase({found->second, key});
    at_.erase(found);
  }
  // Takes one that is due.
  std::optional<Key> take(std::uint64_t now) {
    if (order_.empty() || order_.begin()->first > now) return std::nullopt;
    const Key key = order_.begin()->second;
    drop(key);
    return key;
  }

 private:
  std::map<Key, std::uint64_t> at_;
  std::set<std::pair<std::uint64_t, Key>> order_;
};

}  // namespace lockstep::nodes

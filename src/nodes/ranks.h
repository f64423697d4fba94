// The node ranks of a run and who has them. Keeps as counts and ordered sets what the leader asks
// of all of them, so that a word costs O(log N). The leader alone decides (leader.h).
//
// Threads: one at a time. Errors: none; ranks are from 0 to size() - 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "nodes/deadlines.h"
#include "nodes/words.h"

namespace lockstep::nodes {

using Link = std::uint64_t;
inline constexpr Link kOwnLink = 0;

// Who has one rank, and what is known of that node.
struct RankState {
  bool taken = false, lost = false;
  Row row;
  // As the one that has it says of itself in its NodeWord.
  bool has_lock = false;
  Attempt ran = 0;
  std::string led_from;  // if that is not where this leader is
  std::optional<Link> link;
  std::uint64_t since = 0, heard_at = 0, closed_at = 0;
  Stamp echoed = 0;              // the newest word to it that it has answered
  bool counts = true;            // in oldest_echo()
  std::uint64_t not_before = 0;  // until then workers of the lost one may live
  Incarnation lost_one = 0;
  std::uint32_t base_rank = 0, role_base = 0, role_world = 0;  // in the attempt
  bool clear = false;  // has seen that nothing may live, and nothing does
  bool ended = false;  // its workers of the attempt ended with 0
};

class Ranks {
 public:
  struct Times {
    std::uint64_t limit, redial;
  };
  Ranks(int nodes, Times times);

  int size() const { return static_cast<int>(ranks_.size()); }
  const RankState& at(int rank) const {
    ++visits_;
    return ranks_[static_cast<std::size_t>(rank)];
  }
  // To change what is not counted: what its node says of itself, not_before, the ranks.
  RankState& of(int rank) {
    ++visits_;
    return ranks_[static_cast<std::size_t>(rank)];
  }
  // How often a rank was read or changed so far: what it costs.
  std::uint64_t visits() const { return visits_; }

  void assign(int rank, Link link, const Row& row, std::uint64_t now);
  void heard(int rank, Stamp echo, std::uint64_t now);
  void closed(int rank, std::uint64_t now);
  void lose(int rank);
  // No attempt follows: the lost ones' silence is nobody's fence any more, until they are back.
  void release_lost();
  void release(int rank);  // the same of one, if it is lost
  void set_clear(int rank, bool clear);
  void set_ended(int rank, bool ended);
  void nothing_is_clear();
  void nothing_has_ended();

  int clear() const { return clear_; }
  int ended() const { return ended_; }
  int working() const { return working_; }  // connected, and not clear
  // Not connected, and not lost yet: that is decided `redial` after the connection was.
  int away() const { return static_cast<int>(away_.size()); }
  std::uint64_t oldest_away() const { return away_.empty() ? ~std::uint64_t{0} : *away_.begin(); }
  bool all_here() const { return here_ == size(); }
  // The oldest of the newest words that each other node has answered.
  Stamp oldest_echo() const { return echoes_.empty() ? ~Stamp{0} : *echoes_.begin(); }

  // Ranks that are silent or closed for too long, one by one.
  std::optional<int> take_silent(std::uint64_t now);
  // The one of that incarnation; that of a lost one of the same machine or address. -1: none.
  int of_incarnation(Incarnation incarnation) const;
  int of_lost(const Row& row) const;
  // For whoever comes: never taken, or nothing was heard of the lost one for 3 L.
  const std::set<int>& free() const { return free_; }
  bool is_vacant(int rank, const Row& row) const;

 private:
  void count(const RankState& state, int by);
  void set_echo(RankState& state, bool counts, Stamp echo);
  void disconnect(RankState& state, bool lost);
  void forget_machine(int rank);

  const Times times_;
  mutable std::uint64_t visits_ = 0;
  std::vector<RankState> ranks_;
  int clear_ = 0, ended_ = 0, working_ = 0, here_ = 0;
  std::multiset<std::uint64_t> away_;  // their connections were lost at
  std::multiset<Stamp> echoes_;
  Deadlines<int> deadlines_;
  std::set<int> free_;
  std::unordered_map<Incarnation, int> incarnations_;
  std::set<std::pair<std::string, int>> machines_, addresses_;  // of the lost
};

}  // namespace lockstep::nodes

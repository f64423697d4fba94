// When nothing may live any more of the attempts before the next one, as far as nodes do not say so
// themselves.
#include <algorithm>

#include "nodes/leader.h"

namespace lockstep::nodes {

// The last attempt was begun on this machine, by the leader whose record this one has.
bool Leader::is_next_here() const { return before_.run == run_ && before_.attempt == attempt_; }

// Another leader, of whom nobody here has heard, may have led meanwhile with others in the place of
// all who are here. It has lost the one in whose place this one comes, and its fence ends them.
bool Leader::may_have_led_others(const RankState& state, Link link, const Node& node) const {
  if (!rules_.in_turn || attempt_ == 0 || node.word.ran == attempt_) return false;
  if (link == kOwnLink && is_next_here() && node.word.has_lock) return false;
  const bool is_same = state.taken && state.row.incarnation == node.word.row.incarnation;
  const bool was_here = state.taken && node.heard_at < state.heard_at + rules_.limit;
  return !is_same && !was_here;
}

// Perhaps of an agent that nobody knows. The lock is another node's where no ranks are given.
bool Leader::may_have_earlier(const RankState& state) const {
  if (state.has_lock || state.ran != 0 || state.lost_one != 0) return false;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const RankState& one = ranks_.at(rank);
    if (one.link && one.has_lock && one.row.machine == state.row.machine) return false;
  }
  return true;
}

// Once all are connected.
std::uint64_t Leader::may_begin_at() const {
  std::uint64_t at = 0;
  const std::uint64_t fence = rules_.limit + rules_.grace;
  for (int rank = 0; rank < ranks_.size(); ++rank) {
    const RankState& state = ranks_.at(rank);
    at = std::max({at, state.not_before, may_have_earlier(state) ? state.since + fence : 0});
    if (!led_before_) continue;
    // Who had a rank before this leader came is not known to it. Whoever was in the last attempt of
    // all says itself what lives; for others, and where the last leader was elsewhere, the fence is
    // waited for.
    const bool known = state.link == kOwnLink ? is_next_here() && state.has_lock
                                              : state.ran == attempt_ && state.led_from.empty();
    if (!known) at = std::max(at, std::max(heard_of_it_at_, state.since) + fence);
  }
  return at;
}

}  // namespace lockstep::nodes

// Which hosts go where links of two hosts cannot reach each other, though their launchers hear each
// other or a third one: the leader's decision, as quorum::to_keep() has it. Its own host may go.
//
// A pair is cut once both have said for L that there is no stream; a link has heard nothing for L
// before it gives one up. What cuts one pair may cut others a moment later: then whoever reaches
// fewer goes, not whoever was noticed first, so pairs that have been so for half of L count, too.
//
// Threads: one at a time. Errors: none. Times: nanoseconds of one clock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "coord/run_facts.h"
#include "coord/table.h"
#include "quorum/set.h"

namespace lockstep::launcher {

class Cuts {
 public:
  explicit Cuts(std::uint64_t limit) : limit_(limit) {}

  // `host` says whom its link does not reach, of all hosts.
  void hear(coord::HostIndex host, const std::vector<coord::HostIndex>& unreached,
            std::uint64_t now);

  // Of the leader's own silence, which ends now: what has been said meanwhile it has not heard.
  void forget_pause(std::uint64_t gap, std::uint64_t now) {
    for (auto& [pair, since] : since_) since = std::min(since + gap, now);
  }

  struct Going {
    std::size_t host = 0;
    std::size_t other = 0;  // that it does not reach
    friend bool operator==(const Going&, const Going&) = default;
  };
  // By host; again at each call until they are out of the set.
  std::vector<Going> going(const quorum::Set& set, const quorum::Ties& ties,
                           const coord::RunFacts& facts, std::uint64_t now) const;

 private:
  using Pair = std::pair<coord::HostIndex, coord::HostIndex>;  // the lower first

  const std::uint64_t limit_;
  std::map<coord::HostIndex, std::vector<coord::HostIndex>> unreached_;  // as each has said last
  std::map<Pair, std::uint64_t> since_;                                  // both say so
};

using Why = std::map<std::size_t, std::string>;                      // by host, for people
bool is_news(const Why& going, const std::set<std::size_t>& known);  // one of them is not known
// Whom the leader takes out of the set now, if they may go: those that are lost, and only where
// none of them is news or may go, those that are cut off with them. So a host that is lost beside a
// cut goes first, and what is right then is looked at anew; all at once may be too many. Whoever is
// known to go does so even if it is heard again by then: may_go() is asked of those, too.
Why who_goes(const Why& lost, const Why& cut_off, const std::set<std::size_t>& known,
             const std::function<bool(const std::set<std::size_t>&)>& may_go);

}  // namespace lockstep::launcher

// The leader of a run's nodes: the agent of the endpoint. Decides who has which node rank, when an
// attempt begins and ends, what a loss costs, and how the run ends. Pure: words and the time go in,
// words come out. docs/decisions/0023 has the rules.
//
// Its own node takes part like any other, over a link that is never closed (kOwnLink).
//
// Threads: one at a time. Cost: a word in or out O(log N), begin and end of an attempt O(N), a tick
// O(log N) for each node that has become silent. Errors: none; what a node gets wrong is in the
// word to it (LeaderWord::refusal).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "nodes/cause.h"
#include "nodes/deadlines.h"
#include "nodes/ranks.h"
#include "nodes/view.h"
#include "nodes/words.h"

namespace lockstep::nodes {

// Nanoseconds. The leader's hold; a node takes its `limit` from it.
struct Rules {
  int nodes = 1;
  int max_restarts = 0;
  std::uint64_t limit = 15'000'000'000;          // L: silence
  std::uint64_t grace = 1'000'000'000;           // beyond L, before others may start
  std::uint64_t redial = 1'000'000'000;          // for a closed connection to be made again
  std::uint64_t join_timeout = 600'000'000'000;  // for all to be there
  // For all to tell what has failed; and where a connection was lost meanwhile, what becomes of it.
  std::uint64_t settle = 1'000'000'000;
  std::string endpoint = {};  // HOST:PORT where the leader is, for messages
  // Agents lead in turn (succession.h), this one perhaps after others that have told of an end or a
  // stop to some nodes only. Its own node has no rank by right.
  bool in_turn = false;
};

class Leader {
 public:
  // What a leader leaves on its machine before each attempt begins, for the next one there.
  struct Record {
    std::uint64_t run = 0;
    Attempt attempt = 0;
    // There is one, and this run is not its next attempt: it cannot be read (then it is 0, 0), or
    // is of another command.
    bool begins_anew = false;
  };
  // `own`: its own node, of rank 0 unless it has one. `run`: drawn; if `before` or a node tells an
  // older one, of a leader before this one, it is that. `before`: what that leader has left on this
  // machine; its agent is dead, its workers may not be.
  Leader(const Rules& rules, Row own, std::uint64_t run, const Record& before, std::uint64_t now);

  // Links are numbered in the order in which they come.
  void heard(Link link, const NodeWord& word, std::uint64_t now);
  void closed(Link link, std::uint64_t now);
  void tick(std::uint64_t now);

  // To be sent to all when version() has changed, to those of take_due() that alone have news, else
  // at each heartbeat.
  LeaderWord word_for(Link link, std::uint64_t now);
  std::uint64_t version() const { return version_; }
  std::vector<Link> take_due() { return std::exchange(due_, {}); }
  // Connections that it has given up: their nodes were silent, or have made new ones.
  std::vector<Link> take_dropped() { return std::exchange(dropped_, {}); }

  // Forming: waits until all nodes are there and nothing of the last attempt lives. Stopping: all
  // are told to end, Final follows.
  enum class Phase { kForming, kRunning, kStopping, kFinal };
  // To be kept before words of a new attempt are sent.
  Record record() const { return {run_, attempt_}; }
  Phase phase() const { return phase_; }
  // It has all nodes, a group that runs, or the run's end (Lead::active).
  bool is_active() const {
    const bool may_be_told_another = unless_told_ && !final_;
    return (phase_ != Phase::kForming && !may_be_told_another) || ranks_.all_here();
  }
  Attempt attempt() const { return attempt_; }
  const std::optional<Final>& final() const { return final_; }
  // For whom it waits: "node 2 (10.0.0.3, silent for 15.0 s), node 3 (never seen)".
  // Where no ranks are given: "1 more node (2 of 3 are here: host1, host2)".
  std::string missing(std::uint64_t now) const;
  // The same, with how long still.
  std::string waiting_for(std::uint64_t now) const;
  // For `lockstep status`: `most` nodes, from that rank on (view.cpp).
  View view(int from, int most, std::uint64_t now) const;
  // Of the node behind it; -1: it has none, or another link has taken its place.
  int rank_of(Link link) const {
    const auto found = links_.find(link);
    return found == links_.end() ? -1 : found->second.rank;
  }
  bool has_rank(Link link) const { return rank_of(link) >= 0; }
  // What its decisions cost: Ranks::visits().
  std::uint64_t visits() const { return ranks_.visits(); }

 private:
  struct Node {  // behind one link
    NodeWord word;
    std::uint64_t since = 0, heard_at = 0;
    int rank = -1;
    std::string refusal;
    int refusal_code = 0;
  };

  static bool is_done(const Node& node);
  // leader_ranks.cpp: who has which rank.
  void give_rank(Link link, Node& node, std::uint64_t now);
  void assign_given(int rank, Link link, Node& node, std::uint64_t now);
  void assign_waiting(std::uint64_t now);
  void wait_for_rank(Link link, Incarnation incarnation);
  void waits_no_more(Link link);
  bool is_member(Link link) const;
  void refuse_surplus(Link link, Node& node);
  void refuse_stopped(Link link, Node& node);
  void assign(int rank, Link link, Node& node);
  void refuse(Link link, Node& node, int code, std::string why);
  static bool proves_dead(const RankState& state, const NodeWord& word);

  void forget(Link link);
  bool was_led_elsewhere(const NodeWord& word) const;
  void note(int rank, const NodeWord& word, std::uint64_t now);
  void note_signal(const std::string& who, const NodeWord& word, std::uint64_t now);
  void note_failure(int rank, const Failure& failure, std::uint64_t now);
  void add_failure(const NodeFailure& failure, std::uint64_t now);
  void adopt(const NodeWord& word, std::uint64_t now);
  void follow(Attempt attempt, std::uint64_t now);
  void lose(int rank, const std::string& why, std::uint64_t now);
  void end_attempt(std::uint64_t now);
  void end_attempt_for(const std::string& why, std::uint64_t now);
  bool may_restart() const { return attempt_ <= static_cast<Attempt>(rules_.max_restarts); }
  bool may_settle(std::uint64_t now) const;
  void settle(std::uint64_t now);
  std::string unheard(std::uint64_t now) const;
  std::string missing_nodes(std::uint64_t now) const;
  std::string let_in(std::uint64_t now) const;
  void look_at_clock(std::uint64_t now);
  void tell_missing(std::uint64_t now);
  void nothing_may_live(std::uint64_t now);
  void finish(Final final);
  bool has_heard_all(std::uint64_t now) const;
  bool others_may_wait(std::uint64_t now) const;
  void decide(std::uint64_t now);
  // leader_fence.cpp
  bool is_next_here() const;
  bool may_have_led_others(const RankState& state, Link link, const Node& node) const;
  bool may_have_earlier(const RankState& state) const;
  std::uint64_t may_begin_at() const;
  void begin(std::uint64_t now);
  std::uint64_t age(std::uint64_t now) const;
  Stamp stamp(std::uint64_t now);
  std::string name(int rank) const;

  Rules rules_;
  Row own_;
  std::uint64_t run_;
  Record before_;
  bool run_is_known_ = false;  // a node has told it with an attempt, or one was begun here
  Phase phase_ = Phase::kForming;
  Attempt attempt_ = 0;      // the highest that anybody was told
  bool led_before_ = false;  // by another leader: it was not begun here
  std::uint64_t heard_of_it_at_ = 0;
  Stamp ended_at_ = 1;  // when it was last said that nothing may live
  Stamp last_stamp_ = 1;
  std::uint64_t waits_since_;
  const std::uint64_t leads_since_ = waits_since_;
  std::uint64_t now_ = 0;       // when it was last awake
  Cause cause_;                 // of the attempt's end
  std::string waits_for_;       // LeaderWord's
  std::string why_;             // the last attempt was ended, once that is settled
  std::optional<Store> store_;  // of the attempt
  int signal_ = 0;
  bool stop_is_told_ = false;  // by a leader before this one
  bool kill_all_ = false;      // somebody's second one
  std::optional<Final> final_;
  std::optional<Final> unless_told_;  // the end, unless one before this has told another
  bool final_is_told_ = false;        // by a leader before this one
  bool over_ = false;
  std::uint64_t version_ = 1;
  std::vector<Link> due_, dropped_;
  std::map<Link, Node> links_;
  std::set<Link> waiting_;                          // for a rank
  std::unordered_map<Incarnation, Link> waits_by_;  // each launcher by one of them
  std::size_t done_ = 0;                            // links of which the end waits for nothing
  Deadlines<Link> silent_;                          // those without a rank
  std::set<Incarnation> earlier_;                   // whose ranks others have taken
  Ranks ranks_;
  std::optional<std::uint64_t> begins_at_;  // may_begin_at(), until that may change
  std::uint32_t world_ = 0;                 // workers of the attempt
};

}  // namespace lockstep::nodes

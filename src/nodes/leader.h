// The leader of a run's nodes: the agent of the endpoint. Decides who has which node rank, when an
// attempt begins and ends, what a loss costs, and how the run ends. Pure: words and the time go in,
// words come out. docs/decisions/0023 has the rules.
//
// Its own node takes part like any other, over a link that is never closed (kOwnLink).
//
// Threads: one at a time. Cost: a word O(log N), a tick O(N). Errors: none; what a node gets wrong
// is in the word to it (LeaderWord::refusal).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nodes/words.h"

namespace lockstep::nodes {

using Link = std::uint64_t;
inline constexpr Link kOwnLink = 0;

// Nanoseconds. The leader's hold; a node takes its `limit` from it.
struct Rules {
  int nodes = 1;
  int max_restarts = 0;
  std::uint64_t limit = 15'000'000'000;          // L: silence
  std::uint64_t grace = 1'000'000'000;           // beyond L, before others may start
  std::uint64_t redial = 1'000'000'000;          // for a closed connection to be made again
  std::uint64_t join_timeout = 600'000'000'000;  // for all to be there
};

class Leader {
 public:
  // What a leader leaves on its machine before each attempt begins, for the next one there.
  struct Record {
    std::uint64_t run = 0;
    Attempt attempt = 0;
  };
  // `own`: its own node, of rank 0 unless it has one. `run`: drawn; if a node tells an older one,
  // of a leader before this one, it is that. `before`: what that leader has left on this machine,
  // if its agent and workers are known to be dead.
  Leader(const Rules& rules, Row own, std::uint64_t run, const Record& before, std::uint64_t now);

  void heard(Link link, const NodeWord& word, std::uint64_t now);
  void closed(Link link, std::uint64_t now);
  void tick(std::uint64_t now);

  // To be sent to all when version() has changed, else at each heartbeat.
  LeaderWord word_for(Link link, std::uint64_t now);
  std::uint64_t version() const { return version_; }

  // Forming: waits until all nodes are there and nothing of the last attempt lives.
  enum class Phase { kForming, kRunning, kStopping, kFinal };
  // To be kept before words of a new attempt are sent.
  Record record() const { return {run_, attempt_}; }
  Phase phase() const { return phase_; }
  Attempt attempt() const { return attempt_; }
  const std::optional<Final>& final() const { return final_; }
  // For whom it waits: "node 2 (10.0.0.3, silent for 15.0 s), node 3 (never seen)".
  std::string missing(std::uint64_t now) const;

 private:
  struct Node {  // behind one link
    NodeWord word;
    std::uint64_t heard_at = 0;
    int rank = -1;
    std::string refusal;
    int refusal_code = 0;
  };
  struct Seat {  // of one rank
    bool taken = false, lost = false;
    Row row;
    bool alone = false;    // NodeWord::alone, of the one that has it
    std::string led_from;  // NodeWord::led_from
    std::optional<Link> link;
    std::uint64_t since = 0, heard_at = 0, closed_at = 0;
    Stamp echoed = 0;              // the newest word to it that it has answered
    std::uint64_t not_before = 0;  // until then workers of the lost one may live
    Incarnation lost_one = 0;
    std::uint32_t base_rank = 0, role_base = 0, role_world = 0;  // in the attempt
    bool clear = false;  // has seen that nothing may live, and nothing does
    bool ended = false;  // its workers of the attempt ended with 0
  };

  void seat(Link link, Node& node, std::uint64_t now);
  void sit(int rank, Link link, Node& node, std::uint64_t now);
  bool was_led_elsewhere(const NodeWord& word) const;
  int vacant_for(const Row& row, std::uint64_t now) const;
  static bool proves_dead(const Seat& seat, const NodeWord& word);
  bool is_vacant(const Seat& seat, const Row& row, std::uint64_t now) const;
  void note(Seat& seat, const NodeWord& word, std::uint64_t now);
  void set(bool& flag, bool to, int& count);
  void adopt(const NodeWord& word, std::uint64_t now);
  void lose(Seat& seat, const std::string& why, std::uint64_t now);
  void end_attempt(Final otherwise, std::uint64_t now);
  void nothing_may_live(std::uint64_t now);
  void finish(Final final);
  void decide(std::uint64_t now);
  std::uint64_t may_begin_at() const;
  void begin(std::uint64_t now);
  bool all_know() const;
  std::uint64_t age(std::uint64_t now) const;
  Stamp stamp(std::uint64_t now);
  int rank_of(const Seat& seat) const { return static_cast<int>(&seat - seats_.data()); }
  std::string name(const Seat& seat) const;

  Rules rules_;
  Row own_;
  std::uint64_t run_;
  Record before_;
  bool run_is_older_ = false;
  Phase phase_ = Phase::kForming;
  Attempt attempt_ = 0;      // the highest that anybody was told
  bool led_before_ = false;  // by another leader: it was not begun here
  std::uint64_t heard_of_it_at_ = 0;
  Stamp ended_at_ = 1;  // when it was last said that nothing may live
  Stamp last_stamp_ = 1;
  std::uint64_t waits_since_;
  std::string why_;             // the last attempt was ended
  std::optional<Store> store_;  // of the attempt
  int signal_ = 0;
  std::optional<Final> final_;
  bool over_ = false;
  std::uint64_t version_ = 1;
  std::map<Link, Node> links_;
  std::set<Incarnation> earlier_;  // whose ranks others have taken
  std::vector<Seat> seats_;
  int clear_ = 0, ended_ = 0;  // seats
  std::uint32_t world_ = 0;    // workers of the attempt
};

}  // namespace lockstep::nodes

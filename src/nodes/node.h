// One node's side: what its agent makes of the leader's words. Keeps the fence: workers of a node
// that is cut off are killed before others may start. Pure. docs/decisions/0023 has the rules.
//
// The agent carries out wish() after each call, and tells what became of it. Threads: one at a
// time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "nodes/leader.h"
#include "nodes/view.h"
#include "nodes/words.h"

namespace lockstep::nodes {

class Node {
 public:
  Node(const Rules& rules, Row row, std::uint64_t now);

  void heard(const LeaderWord& word, std::uint64_t now);
  void closed(std::uint64_t now);
  // Where it looks for a leader from now on, for messages: Rules::endpoint.
  void looks_at(std::string endpoint) { rules_.endpoint = std::move(endpoint); }
  // Why the leader is not reached, for the end that may follow; "": it is.
  void not_reached(const std::string& why);
  void tick(std::uint64_t now);
  // Before this time tick() has nothing to do; soon after `now`.
  std::uint64_t next_deadline(std::uint64_t now) const;
  // The launcher has had it; its own workers get it at once, and the leader tells all. Without one
  // that has given it a rank it ends alone, soon; at once if none was ever heard. A second one has
  // all killed; if no leader answers it ends at once. `by`: who asked for it by other means.
  void signalled(int signal, std::string by = {});
  // On this machine one before it has led, which was killed: others may have run by its word. Once,
  // before a leader is heard.
  void has_led_before() { leader_machine_ = state_.row.machine; }
  // No worker of an earlier agent lives on this machine.
  void has_taken_lock();

  // As Wish::serve asks: the store is there.
  void serves(Store store);
  // It is no node of this run, or cannot be: its workers are killed, and it ends.
  void leave(int code, std::string why);
  // What its workers do. Each attempt begins with workers_started(), and ends with workers_gone().
  void workers_started();
  // `failure`: with its age, if that is not 0. After workers are told to end only what was before.
  void workers_failed(Failure failure, std::uint64_t now);
  void workers_gone(bool all_ended_with_0);

  struct Wish {
    Attempt serve = 0;  // make a store for it: serves() follows, or workers_failed(); 0: no
    Attempt run = 0;    // start its workers; 0: none
    // To all that live, until they are gone: SIGKILL; or another, and SIGKILL after the grace.
    int signal = 0;
  };
  Wish wish() const;

  // The fence as it stands: nothing of this node may live then. 0: nothing does.
  std::uint64_t may_live_until() const;

  NodeWord word(std::uint64_t now) const;
  // word() has news, or the leader waits for it: to be sent at once. Else at each heartbeat.
  std::uint64_t version() const { return version_; }
  struct Share {  // of the attempt
    std::uint32_t base_rank = 0, world = 0;
    std::uint32_t role_base = 0, role_world = 0;
    int rank = -1;
    std::optional<Store> store;
  };
  const Share& share() const { return share_; }
  std::uint64_t run() const { return state_.run; }  // as its leader tells it; 0: not yet
  // The last attempt, or the run, ends. "": it has not, or it is not settled yet what came first.
  const std::string& why() const { return why_; }
  // The last attempt that this node took part in and that has ended for why(), with another one to
  // follow. 0: none, or it is not settled yet.
  Attempt restarts_after() const { return why_.empty() ? 0 : why_of_; }
  // It ends by itself, whatever becomes of the run.
  bool leaves() const { return leaving_.has_value(); }
  // Nodes that the leader waits for; "": none, or not for long.
  const std::string& waits_for() const { return waits_for_; }
  std::uint64_t limit() const { return rules_.limit; }  // L: the leader's, once it has been heard
  // The leader is heard now, as far as this node knows.
  bool is_led(std::uint64_t now) const { return state_.leader != 0 && !leader_is_gone(now); }
  // When it was heard last, or since when it is looked for.
  std::uint64_t heard_at() const { return heard_at_; }
  int leader_rank() const { return leader_rank_; }  // of the leader's own node; -1: not known
  // When it ends for want of a leader, if nothing is heard of one.
  std::uint64_t gives_up_at() const;
  // Behind what is said of a leader that is not reached: how long still. "": it ends soon.
  std::string tries_on(std::uint64_t now) const;
  // For `lockstep status` (view.cpp).
  View view(std::uint64_t now) const;
  // Nothing of it lives, and nothing is left to do.
  const std::optional<Final>& ending() const { return ending_; }

 private:
  void take_leader(const LeaderWord& word);
  void take_end(const LeaderWord& word);
  void take_orders(const LeaderWord& word);
  bool may_begin(const LeaderWord& word, std::uint64_t now) const;
  void begin(const LeaderWord& word);
  int end_by(const LeaderWord& word) const;
  void end_by_signal(std::uint64_t now);
  void go_on_alone(std::uint64_t now);
  bool has_no_restart() const;
  std::uint64_t next_leader_by() const;
  void stop(int signal);
  void fence(std::uint64_t now);
  std::string leader_lost(std::uint64_t now) const;
  std::uint64_t leader_gone_at() const;
  bool leader_is_gone(std::uint64_t now) const;

  Rules rules_;
  NodeWord state_;         // what the leader is told, but for ages and the time
  bool started_ = false;   // its workers were asked for
  bool has_rank_ = false;  // of this leader
  bool kill_ = false;
  int signal_told_ = 0;  // to another launcher, as a leader has told
  std::string signal_told_why_;
  std::optional<std::uint64_t> signalled_at_;
  int stop_by_ = 0;  // that workers are to end by
  std::string leader_machine_;
  int leader_rank_ = -1;
  std::uint64_t failed_at_ = 0;
  std::optional<Final> leaving_, ending_;
  Share share_;
  std::string why_, waits_for_;
  Attempt why_of_ = 0;

  std::uint64_t heard_at_;  // the leader, or since when it is looked for
  std::uint64_t now_;       // the last time told
  std::uint64_t killed_at_ = 0;
  std::optional<std::uint64_t> closed_at_;
  std::string trouble_;
  std::uint64_t fence_at_ = 0;  // the latest by any word of this leader
  bool over_ = false;
  using Waited = std::tuple<Incarnation, Attempt, bool, int>;  // of the leader's words
  Waited waited_;
  std::uint64_t version_ = 1;
};

}  // namespace lockstep::nodes

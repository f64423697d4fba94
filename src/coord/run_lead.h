// The run's keeper at the agent that leads a run on several hosts, which may be lost at any moment:
// nothing that it decides is done, or told to anybody, before a quorum has the state that it
// follows from. So what has been done is known to whoever leads next.
//
// A state is written, and in force once a quorum has it; then the next one. It has the orders that
// are not obeyed: each host finds its own in what is in force. What is printed and recorded, and
// the rounds that are to be begun, are done by the leader.
//
// Threads: one at a time. Errors: none. Times: nanoseconds of this agent's clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coord/keeper_wire.h"
#include "coord/run_keeper.h"
#include "coord/run_state.h"
#include "coord/turn.h"

namespace lockstep::coord {

class RunLead {
 public:
  // `state`: the newest that a quorum may have; as it was at `as_of`. Nothing is decided before all
  // hosts have said how they are, or are lost. `config` outlives it.
  RunLead(const Config& config, const RunState& state, std::uint64_t as_of);
  RunLead(const RunLead&) = delete;
  RunLead& operator=(const RunLead&) = delete;

  // What comes is taken in; what follows from all of it pass() decides, so that it does not cost
  // hosts times words. Of many hosts not at each pass, but every some milliseconds.
  void hear(std::size_t host, const HostWord& word, std::uint64_t now);
  void lose_host(std::size_t host, const std::string& why, std::uint64_t now);
  // It was not lost. Before the first decision alone: until then nothing follows from a loss.
  void keep_host(std::size_t host) { lost_.erase(host); }
  bool has_decided() const { return begun_; }
  // As Follows::take_out says.
  void taken_out(const std::vector<std::pair<Stay, bool>>& out, bool any_table, std::uint64_t now);
  void have_come(const std::vector<Stay>& stays, std::uint64_t now);
  void on(const event::Scale& scale, std::uint64_t now);
  void pass(std::uint64_t now);
  std::uint64_t next_deadline(std::uint64_t until);  // that, or what is due before

  // To be written now; none: there is nothing new, or the one before is not in force. What has come
  // is in it once it has been decided about.
  std::optional<RunState> write();
  // The one that was written is in force: what follows, to be done here.
  struct Follows {
    Actions actions;
    std::vector<std::pair<Stay, bool>> take_out;  // true: of the set; else of the tables alone
    std::vector<Stay> bring;
  };
  Follows in_force();
  // Not while a host is yet to have a fresh board: what it would answer with its old one goes. One
  // that is given up may answer as long as that is not in force.
  bool may_begin_rounds(const RunFacts& in_force) const {
    return begun_ && run_.have_boards(in_force);
  }

  const RunFacts& facts() const { return facts_; }  // the newest, in force or not
  std::uint32_t members() const { return run_.members(); }
  std::uint64_t committed() const { return run_.committed(); }
  int replacements_left() { return run_.replacements_left(); }

 private:
  void take(std::uint64_t now, auto what);
  void decide();
  void give(const std::vector<HostIndex>& hosts, const Order& order);
  void wait(std::size_t host, const HostWord& word);
  void lose_who_obeys_nothing();
  bool has_to_obey(HostIndex host, std::uint64_t number) const;
  void drop_what_is_obeyed();
  bool may_begin() const;
  void begin();
  RunState state() const;

  const std::uint64_t pace_;
  RunFacts facts_;
  Turn turn_;
  RunKeeper run_;
  struct Pending {
    GivenOrder given;
    std::size_t bytes = 0;
  };
  std::vector<Pending> orders_;
  std::uint64_t ordered_;              // so many so far
  std::vector<std::uint64_t> obeyed_;  // by host, the last that it has told of
  bool begun_ = false;
  bool due_ = false;                           // something has come
  bool may_write_ = true;                      // something has been decided, perhaps
  std::uint64_t decided_at_ = 0;               // last
  std::vector<std::deque<HostWord>> waiting_;  // until then, by host
  std::map<std::size_t, std::string> lost_;    // the same
  std::optional<std::string> written_;         // but for what changes all the time
  bool is_written_ = false;                    // and not in force
  Follows held_, written_with_;
};

// Out of the facts, and into them: of those in the tables two that go on, and two that wait in each
// transaction. What a host has to know is whether another one does, and few transactions are open.
std::vector<Pulse> pulses_of(const RunFacts& facts);
void set(RunFacts& facts, const std::vector<Pulse>& pulses);

}  // namespace lockstep::coord

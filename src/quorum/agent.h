// The leader's rules, as one agent keeps them (docs/design/leader.md): who leads, which hosts are
// the run's, and what is in force. Pure: messages are values, time is a parameter.
//
// Whoever uses it says say() to those that it speaks_to() with each heartbeat (every min(250 ms,
// L / 12)), and at once when term, role, vote, leader, facts or acknowledgement have changed, when
// its turn to ask has come, and when it ends; to whom hear() says is to be answered, at once, too.
// It calls pass() before each, and looks afterwards at what this host is to do: attempt(), facts()
// to carry out and acknowledge, wanted_file(), ending().
//
// Times are nanoseconds of this agent's clock, from 1, which may stand still while it is paused.
// Threads: one at a time. Errors: none; what is old, or not for it, is ignored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "quorum/fence.h"
#include "quorum/message.h"
#include "quorum/peers.h"

namespace lockstep::quorum {

struct Settings {
  std::uint64_t silence = 3'000'000'000;  // L: of votes, of exclusion, and of the fence
  // Between the places of a set, for asking: what a word and its answer take, many times.
  std::uint64_t stagger = 150'000'000;
  std::uint64_t grace = 1'000'000'000;  // before a group of plain workers starts
  std::uint64_t join_timeout = 600'000'000'000;
  bool plain = false;    // workers are plain programs'
  bool by_file = false;  // rule 11, of two hosts: the lock file decides
};

struct Ending {
  enum Why { kTakenOut, kNoQuorum, kNotFormed, kFinal };
  Why why = kFinal;
  int code = 0;              // of the process: 75, 75, 69, the verdict's
  std::uint64_t waited = 0;  // of kNoQuorum and kNotFormed: without a leader, once one was missed
};

class Agent {
 public:
  Agent(const Settings& settings, const Member& self, std::uint64_t now);
  virtual ~Agent() = default;

  // True: the sender waits for an answer.
  bool hear(const Message& message, std::uint64_t now);
  // The port of that agent has refused this one: it is dead.
  void refused(const Member& other, std::uint64_t now);
  void pass(std::uint64_t now);
  Message say(const Member& to, std::uint64_t now) const;
  // So that heartbeats are 2 N in all, not N * N: with the leader alone, as long as it hears one.
  // Who leads, asks, would ask now, or is in no set speaks to all, and is answered.
  bool speaks_to(const Member& to, std::uint64_t now) const;

  const Member& self() const { return self_; }
  const Facts& facts() const { return *facts_; }
  const SharedFacts& shared_facts() const { return facts_; }
  Role role() const { return role_; }
  std::uint64_t term() const { return term_; }
  // It leads, and a quorum has answered for less than L.
  bool leads(std::uint64_t now) const;
  // Also itself.
  bool hears_leader(std::uint64_t now) const;
  // It would ask now, if it would win.
  bool has_turn(std::uint64_t now) const { return ask_at_ != 0 && now >= ask_at_; }
  std::optional<Member> leader() const;
  const std::optional<Member>& vote() const { return vote_; }
  bool is_out() const { return was_in_ && facts_->set && !is_in_; }
  bool is_out(const Member& other) const { return peers_.at(other).out; }  // as that one says
  // Heard in the last L; its own pauses, in which it could not hear, are left out.
  bool is_present(const Member& other, std::uint64_t now) const;
  // The leader's: those of the set in force that have said nothing for L. It counts from its
  // election on, as they had nothing to say to it before; but for the leader that it followed then.
  Members silent(std::uint64_t now) const;
  Members present(std::uint64_t now) const;  // others, that are not at their end

  // The host has carried out the newest facts: its link has closed the pairs with those that a
  // change takes out, plain workers of other attempts are killed.
  void acknowledge(const Stamp& stamp, std::uint64_t now);
  const Stamp& acknowledged() const { return acknowledged_; }
  // The newest facts that a quorum has, as the leader says: whoever leads later has their `run`, or
  // a newer one. Those of facts() are, if this is their stamp.
  const Stamp& in_force() const { return in_force_; }
  // Of plain programs: whose workers may run here. None: {}.
  const Stamp& attempt() const { return fence_.running(); }

  // To be asked of the lock directory: the file of the set with this id.
  std::optional<std::uint64_t> wanted_file(std::uint64_t now) const;
  // With this file it could go on without the other one of two, and nobody is known to have it.
  // Whoever leads may ask for it before it has lost the other, to take that one out.
  std::optional<std::uint64_t> open_file() const;
  // The other one of the two has it.
  bool is_denied_file() const { return facts_->set && denied_ == facts_->set.id; }
  void file_answered(std::uint64_t set, bool has, std::uint64_t now);
  // Set once: this agent is at its end.
  const std::optional<Ending>& ending() const { return ending_; }

  // The first set is made by the agent of the endpoint, of all that have met, by when it began; but
  // for those that it has not heard for L since. Again with each pass until it is in force: who is
  // lost before is not in it. False: somebody has one, or it is as it was.
  bool form(const Members& all, std::uint64_t now);

  // The leader's; false: it does not lead, or a rule is against it.
  // A change of the set: whoever stays, and comers. `run`: the run's own facts with it, in the same
  // stamp.
  bool decide(const Members& members, std::string run, std::uint64_t now);
  bool can_decide(const Members& members, std::uint64_t now) const {
    return may_decide(members, now);
  }
  const Ties& ties() const { return ties_; }
  const Members& have_newest() const { return has_; }  // its facts, as far as it has heard
  bool write(std::string run, std::uint64_t now);
  bool stop(int code, std::string text, std::uint64_t now);
  bool end(int code, std::string text, std::uint64_t now);
  bool may_start(std::uint64_t now) const;
  bool start_attempt(std::uint64_t now);
  bool end_attempt(std::uint64_t now);

 protected:
  // The rules that tests switch off.
  virtual bool is_quorum(const Set& set, const Members& who) const;
  virtual bool elects(const Members& votes) const;
  virtual bool may_vote(const Message& request, std::uint64_t now) const;
  virtual bool is_in_force(const Members& acknowledged) const;
  virtual bool is_known(const Members& acknowledged) const { return elects(acknowledged); }
  virtual bool may_decide(const Members& members, std::uint64_t now) const;
  virtual bool obeys_maker(const Message& maker) const;
  virtual bool is_sticky() const { return true; }
  virtual std::uint64_t leads_for() const { return settings_.silence; }

  bool has_vote() const;  // in the set in force, or a comer of the change under way
  virtual std::uint64_t quorum_age(std::uint64_t now) const;
  void stamp(Facts facts);  // writes them
  std::uint64_t draw_id();

  Settings settings_;
  Member self_;
  SharedFacts facts_;
  Peers peers_;
  std::optional<Member> vote_, obeys_;
  bool voted_ = false;      // or has read facts of this term
  bool inherited_ = false;  // the change under way was found at the election
  Members has_;             // of a leader: who has acknowledged its newest facts

 private:
  // agent.cpp
  bool note(const Message& message, std::uint64_t now);
  bool would_vote(const Member& candidate, std::uint64_t now) const;
  void read(const Message& message, std::uint64_t now);
  void take(SharedFacts facts);
  void enter(std::uint64_t term);
  void begin_term(std::uint64_t term);
  bool follow_term(const Message& message, std::uint64_t now);
  void vote(const Message& request, std::uint64_t now);
  void obey(const Message& heartbeat, std::uint64_t now);
  void take_answer(const Message& answer, std::uint64_t now);
  void take_vote(const Message& vote, std::uint64_t now);

  // agent_asking.cpp
  void ask_if_due(std::uint64_t now);
  std::uint64_t my_stagger() const;
  bool would_win(std::uint64_t now) const;
  void ask(std::uint64_t now);
  void win(std::uint64_t now);
  void retire();
  void lead_first(std::uint64_t now);

  // agent_leading.cpp
  void look_at_quorum(std::uint64_t now) const;
  std::uint64_t rough_quorum_age(std::uint64_t now) const;
  std::uint64_t told_quorum_age(std::uint64_t now) const;
  void finish(std::uint64_t now);
  bool finish(std::optional<Verdict> Facts::*which, std::uint64_t now);
  bool decide(std::optional<Verdict> Facts::*which, int code, std::string text);
  void enforce(std::uint64_t now);
  std::uint64_t start_at() const;

  // agent_ending.cpp
  bool all_know(std::uint64_t now) const;
  void end_if_due(std::uint64_t now);
  void end(Ending::Why why, int code, std::uint64_t waited = 0);

  std::uint64_t drawn_ = 0;
  std::uint64_t term_ = 0, highest_ = 0;  // of its own; of all messages
  std::uint64_t higher_ = 0;              // a leader's: of a host of its set
  Role role_ = Role::kFollows;
  bool was_in_ = false;                    // a set in force
  bool is_in_ = false, has_vote_ = false;  // by its facts
  Members votes_;
  Stamp acknowledged_, in_force_;
  Fence fence_;
  std::optional<Member> missed_;  // the leader that it followed when it began to ask
  std::optional<Member> maker_;   // whose first set, not yet in force, it has acknowledged,
  std::uint64_t maker_place_ = 0;
  Ties ties_;
  std::size_t would_ = 0;  // peers that would vote for it, as they have said last
  // quorum_age() looks at all of the set: what it was, when, since when a quorum has answered. 0:
  // to be looked at again.
  mutable std::uint64_t looked_at_ = 0, quorum_at_ = 0;
  std::uint64_t denied_ = 0;      // the set whose file another has
  std::uint64_t remembered_ = 0;  // the set that peers_ remembers last
  std::uint64_t waited_ = 0;      // when anybody was heard last that waits for an answer
  std::uint64_t heard_ = 0;       // a leader with a quorum, last
  std::uint64_t elected_ = 0, ask_at_ = 0, passed_ = 0, began_, alone_since_ = 0, out_since_ = 0;
  std::uint64_t woke_ = 0;  // from a pause: what others had said by then it may not have read
  std::optional<Ending> ending_;
};

}  // namespace lockstep::quorum

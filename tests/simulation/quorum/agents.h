// Simulated agents with clocks of their own and a network between them; plain workers, links that
// take time to close, a lock directory; and an oracle that looks at each event. The rules are the
// project's own: quorum::Agent, quorum::Talk. One thread; everything random comes from one seed.
#pragma once

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../clock.h"
#include "quorum/agent.h"
#include "quorum/talk.h"
#include "shape.h"

namespace lockstep::simulation {

// One whose rules may be switched off.
class BlunderingAgent : public quorum::Agent {
 public:
  BlunderingAgent(const quorum::Settings& settings, const quorum::Member& self, std::uint64_t now,
                  Blunder blunder, const quorum::Set& first)
      : Agent(settings, self, now), blunder_(blunder), first_(first) {}

 protected:
  bool is_quorum(const quorum::Set& set, const quorum::Members& who) const override;
  bool elects(const quorum::Members& votes) const override;
  bool may_vote(const quorum::Message& request, std::uint64_t now) const override;
  bool is_in_force(const quorum::Members& acknowledged) const override;
  bool may_decide(const quorum::Members& members, std::uint64_t now) const override;
  bool is_known(const quorum::Members& acknowledged) const override {
    return blunder_ == Blunder::kOwnWrite || Agent::is_known(acknowledged);
  }
  bool obeys_maker(const quorum::Message& maker) const override;
  bool is_sticky() const override { return blunder_ != Blunder::kNotSticky; }
  std::uint64_t leads_for() const override;
  std::uint64_t quorum_age(std::uint64_t now) const override;

 private:
  bool elected_by_change() const;

  Blunder blunder_;
  const quorum::Set& first_;
};

// Of the run's own facts, "incidents write write ...": the writes.
inline std::string writes_of(const std::string& run) {
  return run.substr(std::min(run.find(' '), run.size()));
}

class Agents {
 public:
  Agents(std::uint64_t seed, const Weather& weather, bool traced);
  Course run();

 private:
  using Member = quorum::Member;
  using Members = quorum::Members;
  using Message = quorum::Message;
  using Stamp = quorum::Stamp;

  // One incarnation. It keeps its place in agents_ when it is dead.
  struct Host {
    std::unique_ptr<quorum::Agent> agent;
    quorum::Talk talk;
    std::uint64_t place = 0;
    bool alive = true, paused = false;
    std::uint64_t beats = 0;  // events of its timer that are out of date have another number
    std::uint64_t beat = 0, rate = 100, ahead = 0;  // its clock: per cent of true; less pauses
    std::uint64_t stood_still_until = 0;            // true time: its fence may be late
    Stamp workers = {};                             // that run here
    Stamp carrying_out = {};                        // acknowledged soon
    bool asks_file = false;
    // What it says at once when it changes, beside its heartbeats.
    std::tuple<std::uint64_t, quorum::Role, std::optional<Member>, std::optional<Member>, Stamp,
               Stamp>
        said;
    std::uint64_t woke = 0, alone_since = 0;  // true time
    std::optional<quorum::Ending> ended;
    quorum::Facts before = {};  // as the oracle has seen it
  };

  // agents.cpp
  std::uint64_t now_of(const Host& host) const;
  std::size_t add(std::uint16_t index, std::uint64_t place);
  void beat(std::size_t index, std::uint64_t number);
  void tell(std::size_t index);
  void say(std::size_t index, std::size_t to);
  void arrive(std::size_t from, std::size_t to, const std::string& frame);
  void mistake(std::size_t to, Message& message) const;
  void spoil(Message& message) const;
  std::string name(const Member& member) const;
  std::string standing(const Host& host) const;
  std::string names(const std::vector<Member>& members) const;
  std::string text(const quorum::Facts& facts) const;
  template <class What>
  void note(const What& what) {
    if (traced_) journal_.push_back(std::to_string(clock_.now() / kMillisecond) + " " + what());
  }
  void see(const char* kind) { ++course_.seen[kind]; }

  // policy.cpp: what a host does, and what its agent decides if it leads.
  void serve(std::size_t index);
  void carry_out(std::size_t index);
  void run_workers(Host& host);
  void ask_file(std::size_t index, std::uint64_t id);
  void lead(std::size_t index);
  quorum::Members silent(const quorum::Agent& agent, std::uint64_t now);
  bool has_elder(const quorum::Agent& agent) const;
  bool exclude(std::size_t index, std::uint64_t now);
  bool admit(quorum::Agent& agent, std::uint64_t now);
  void finish(std::size_t index);
  bool decide(quorum::Agent& agent, const Members& members, std::uint64_t now);
  void write(quorum::Agent& agent, std::uint64_t now);

  // faults.cpp
  void weather();
  void next_weather();
  void crash();
  void pause();
  void wake(std::size_t index, bool stood_still);
  void come(std::uint16_t host, bool twice);
  void calm();

  // oracle.cpp
  void look(std::size_t index);
  void look_at_leader(std::size_t index);
  void look_at_run(const quorum::Agent& agent);
  void look_at_workers(std::size_t index);
  void expect();
  void check_end();
  bool is_quorum(const quorum::Set& set, const Members& who) const;

  Weather weather_;
  const bool traced_;
  Random random_;
  const bool to_all_;  // heartbeats, whom they are for or not
  Clock clock_;
  quorum::Settings settings_;
  std::deque<Host> agents_;
  std::vector<std::vector<char>> cut_;  // [from][to], by place in agents_
  std::size_t alive_of_first_ = 0;
  bool calm_ = false, ending_ = false;
  std::uint64_t calm_at_ = 0;
  quorum::Set first_;                                                  // the first set in force
  std::map<std::pair<std::uint64_t, std::uint64_t>, Member> leaders_;  // by history, term
  std::map<std::pair<std::uint64_t, std::uint64_t>, quorum::Set> in_force_;  // by history, number
  std::map<std::uint64_t, std::string> written_;  // by history: the run, as it is in force
  std::uint64_t writes_ = 0;
  std::map<std::uint64_t, Member> files_;  // by set
  std::map<std::uint64_t, int> acted_on_;  // by history: a final's code
  Members expected_;                       // who has to come to the end with it
  std::deque<std::string> journal_;
  Course course_;
};

}  // namespace lockstep::simulation

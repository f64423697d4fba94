// Simulated machines with the agents of one run of a plain program: virtual time, clocks of their
// own rates, late and lost words, and an oracle that looks after every event. One thread;
// everything random comes from one seed.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "nodes/succession.h"
#include "world.h"

namespace lockstep::simulation {

class Machines {
 public:
  Machines(std::uint64_t seed, const Trouble& trouble);
  Outcome run();

 private:
  using Attempt = nodes::Attempt;
  using Incarnation = nodes::Incarnation;
  using Leader = nodes::Leader;
  using LeaderWord = nodes::LeaderWord;
  using Link = nodes::Link;
  using Node = nodes::Node;
  using NodeWord = nodes::NodeWord;

  // A machine: agents and workers come and go on it, its clock and its paused state stay.
  struct Machine {
    double rate = 1;  // of its clock
    bool paused = false;
    std::uint64_t slow_by = 0;  // its words to others
    std::uint64_t woken_at = 0, paused_at = 0;
    std::uint64_t slept = 0;              // that its clock has missed
    std::vector<std::uint64_t> cut_from;  // machines whose words do not reach it
  };

  struct Workers {
    Attempt attempt = 0;
    std::uint32_t rank = 0, world = 0;
    std::uint64_t run = 0;
  };

  struct Agent {
    Incarnation incarnation = 0;
    std::size_t machine = 0;
    bool leads = false;
    std::unique_ptr<Leader> leader;
    std::unique_ptr<Node> node;
    std::optional<Workers> workers;
    int killing = 0;  // signal under way
    // A worker's death by a signal that asks for an end, until it counts.
    std::optional<nodes::Failure> held;
    std::uint64_t held_since = 0;
    std::uint64_t signalled_at = 0;
    bool refused = false;
    Link link = 0;         // to the leader; 0: none
    Incarnation head = 0;  // that leader
    // Of leaders in turn: what it makes of the places; its own, and where it looks for a leader.
    std::unique_ptr<nodes::Succession> turn;
    int place = -1, target = -1;
    std::uint64_t looks_at = 0;
    std::uint64_t lead = 0, led_by = 0;  // each time that an agent begins to lead has a number
    std::uint64_t heard = 0;
    std::uint64_t redials_at = 0;                  // its connection has broken: not before
    std::uint64_t told_node = 0, told_leader = 0;  // versions
    // The last delivery of each direction of the link: words keep their order.
    std::uint64_t up_at = 0, down_at = 0;
  };

  void trace(std::size_t machine, const std::string& what) const;
  std::uint64_t time_of(std::size_t machine) const;
  bool reaches(std::size_t from, std::size_t to) const;
  Agent* find(Incarnation incarnation);
  // At the endpoint's address now, or the one that goes on; another one may be cut off, and not
  // know it.
  Agent* leader();
  bool done() const { return started_ == trouble_.nodes && agents_.empty() && restarts_ == 0; }
  void start(std::size_t machine);
  nodes::Row row_on(std::size_t machine, Incarnation incarnation) const;
  // What a process does whenever it runs: looks at the time, talks, obeys.
  void go_on(Incarnation incarnation);
  // As an agent finds it out by a lock that its workers inherit.
  bool is_alone(const Agent& agent) const;
  bool end_of(const Agent& agent);
  void leave(Incarnation incarnation);
  void drop(Agent& agent);
  // The leader hears that a link's other end is gone.
  void tell_closed(const Agent& from);
  void close_below(Incarnation incarnation, Link link, std::size_t from);
  void connect(Agent& agent);
  std::uint64_t delay(std::size_t from);
  void say_up(Agent& agent);
  // To all, or to those that alone have news.
  void say_down(Agent& head);
  void serve(Agent& agent);
  void obey(Agent& agent);
  void end_later(Incarnation incarnation, Attempt attempt, std::uint64_t after);
  void gone(Agent& agent, bool well);
  void all_go_on();
  void beat();
  void next_fault();
  void heal_all();
  void wake(std::size_t machine);
  void fault();
  void signal(Agent& agent);
  // Of others' workers the death is the consequence.
  void fail_worker(Agent& agent);
  void fail_others(const Agent& agent, std::uint64_t soonest);
  // Causes of an end, and what must not be taken for one.
  void fail_something(Agent& agent);
  void break_connection(Agent& agent);
  void be_silent(std::size_t machine);
  void fail(Agent& agent, const std::string& kind, std::uint64_t age, bool by_signal);
  void tell_held(Agent& agent);
  bool runs(const Agent& agent, Attempt attempt) const;
  void note(std::size_t machine, const std::string& kind);
  // From all, or from one, both ways or one; for a while.
  void cut(std::size_t machine);
  // A machine is cut off for long, and somebody starts its agent elsewhere, at the latest after
  // that time: a pod that moved. The endpoint's address moves with the leader; perhaps one more
  // moves with it.
  void double_up(Agent& agent, std::uint64_t latest, bool hangs = false);
  void double_another(const Agent& leader);
  // The leader's words become late, then its machine hangs, and the endpoint moves.
  void hang(const Agent& leader);
  void pause(std::size_t machine, std::uint64_t time);
  // What it says is late by up to L, as from an overloaded machine; what it hears is not.
  void slow_down(std::size_t machine);
  // Its words reach nobody; nor, unless it is one way, do others' reach it.
  void cut_off(std::size_t machine, bool one_way);
  // in_turn.cpp: agents that lead in turn.
  void draw_places();
  void take_turn(Agent& agent);
  void lead(Agent& agent);
  void yield(Agent& agent);
  void follow(Agent& agent, int place);
  void look_around(Agent& agent);
  void look_at(Agent& agent, int place);
  Agent* leader_on(std::size_t machine);
  nodes::Lead lead_of(const Agent& agent) const;
  void count_leaders();
  void lose_at_the_end(Agent& agent);
  // With its machine, for long; its agent is started on the spare one unless `alone`.
  void lose_machine(Agent& agent, bool alone);
  // Its workers die with it. Somebody starts it again, perhaps elsewhere.
  void kill(Agent& agent, bool moves, std::uint64_t longest);
  // A machine is cut off, its agent is started elsewhere, and all others anew at once: nobody who
  // is there has heard of the attempt that it still runs.
  void replace(Agent& agent);
  struct Seen {
    Attempt attempt = 0;
    std::uint32_t world = 0;
    std::set<std::uint32_t> ranks;
  };
  // Who has a rank after another machine's agent has it no sooner than 3 L after that one's last
  // word.
  void check_rank(const Agent& agent, int rank);
  void check_end(const Agent& agent, const nodes::Final& final) const;
  // What is named is no consequence.
  void check_cause(const std::string& text) const;
  // Where all agents were replaced, one by one, so that nobody knows of a run any more, another one
  // begins: that is not the oracle's business.
  void look();
  // Of those that ran the last attempt, where nothing has happened for a while before the first
  // left. Who was replaced gets 69.
  void check_codes() const;

  const bool traced_ = std::getenv("NODES_TRACE") != nullptr;
  Random random_;
  Trouble trouble_;
  nodes::Rules rules_;
  Clock clock_;
  std::vector<Machine> machines_;
  std::map<Incarnation, Agent> agents_;
  std::map<std::size_t, Leader::Record> records_;
  std::map<std::size_t, int> strays_;
  std::vector<std::pair<std::size_t, Workers>> stray_workers_;
  Incarnation incarnations_ = 0;
  std::uint64_t runs_ = 100, links_ = 0;
  int started_ = 0, restarts_ = 0;
  std::size_t endpoint_ = 0;
  std::vector<std::size_t> places_;  // machines of a list of endpoints; empty: there is one
  std::uint64_t leads_ = 0, whole_at_ = 0, two_lead_since_ = 0;
  int know_end_ = 0;  // so many nodes have heard of it when the leader's machine is lost
  const bool ranks_given_ = random_.chance(0.5);
  std::uint64_t disturbed_at_ = 0;
  int incidents_ = 0;
  Attempt begun_ = 0;  // the last that a leader has, though no node may have heard of it
  // By leader: who has had the rank last, and when a word of an agent came last.
  std::map<std::pair<Incarnation, int>, std::pair<Incarnation, std::size_t>> holders_;
  std::map<std::pair<Incarnation, Incarnation>, std::uint64_t> arrived_;
  struct Ends {
    std::set<int> codes;
    std::uint64_t first_at = 0;
  };
  std::map<std::pair<Incarnation, Attempt>, Ends> ends_;  // by leader and attempt
  bool ended_ = false;
  Outcome outcome_;
};

}  // namespace lockstep::simulation

// The control plane of a linked program's run on many hosts, without faults but those asked for:
// what events cost as N grows. The rules and the bytes are the project's own: agents
// (quorum::Agent, quorum::Talk), keepers (coord::Coordinator, RunLead), what they say
// (link::LeaderTalk, HostTalk), and rounds (link::RoundKeeper, HostRounds). Virtual time; words
// take 0.1 to 0.3 ms. What is computed takes no virtual time, but is measured.
//
// A host has one worker, which is ready 10 ms after it is asked for. Boards are simpler than they
// are (boards.h): links bring all at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../clock.h"
#include "boards.h"
#include "coord/membership.h"
#include "link/agent_talk.h"
#include "link/host_rounds.h"
#include "link/round_keeper.h"
#include "quorum/agent.h"

namespace lockstep::simulation {

struct ControlCosts {
  std::uint64_t took = 0;              // virtual
  std::uint64_t words = 0, bytes = 0;  // of all hosts
  // How often facts, with the run's state, are said to somebody, how often whole, and their bytes.
  std::uint64_t states = 0, wholes = 0, state_bytes = 0;
  // In and out, of the leader (of the one that leads at the end), and of the other that has most.
  std::uint64_t leader_words = 0, leader_bytes = 0, most_words = 0, most_bytes = 0;
  std::uint64_t leader_allocated = 0;   // bytes, in all of that leader's turns
  double leader_cpu = 0, host_cpu = 0;  // seconds: of that leader, and of the others on average
};

class ControlCluster {
 public:
  explicit ControlCluster(std::size_t hosts);
  ~ControlCluster();

  ControlCosts form();  // once, first: until all are in a transaction
  ControlCosts rest(std::uint64_t time);
  ControlCosts lose(std::size_t count);  // the last of those alive; until all are in the next one
  ControlCosts lose_leader();

 private:
  struct Host;
  struct Leading;

  // cluster.cpp
  Host& add(std::size_t index);
  void beat(std::size_t index);
  void wake(Host& host);
  void arrive_after(std::size_t from, std::size_t to, std::size_t bytes,
                    std::function<void(Host&)> what);
  void timed(Host& host, const std::function<void()>& what);
  ControlCosts spent(std::uint64_t since);
  ControlCosts until_all_have_applied(std::uint64_t txn);
  std::uint64_t beat_time() const;
  std::size_t leader() const;

  // agents.cpp: who leads
  void say(Host& host, std::size_t to);
  void say_all(Host& host);
  void hear(Host& host, std::size_t from, const std::string& frame);
  void hear_frame(Host& host, std::size_t from, const std::string& frame, bool to_leader);
  void send(std::size_t from, std::size_t to, const std::string& frame, bool to_leader);
  void serve(Host& host);
  void serve_once(Host& host);
  void follow_leader(Host& host);
  void carry_out(Host& host);
  void follow(Host& host);
  const coord::RunState& decoded(const std::string& run);

  // leading.cpp
  void lead(Host& host);
  void lead_no_more(Host& host);
  void go_on_leading(Host& host);
  void exclude(Host& host);
  bool write(Host& host);
  void lead_rounds(Host& host);
  void begin_rounds(Host& host);
  void tell_round(Host& host);
  void hear_round(Host& host, const link::RoundMessage& message);
  void answered(Host& host, const link::RoundMessage& message);
  void go_on_with_rounds(Host& host);
  std::vector<coord::Pulse> pulses(Host& host) const;

  // workers.cpp
  void turn(Host& host, const std::function<coord::Actions(coord::Coordinator&)>& what);
  void feed(Host& host, const coord::Event& event);
  void obey(Host& host, const coord::Actions& actions);
  void start(Host& host, const coord::action::Spawn& spawn);
  coord::event::Progress observe(const Host& host) const;
  void look_at_boards();
  void step();

  Clock clock_;
  Random random_{1};
  coord::Config config_;
  std::vector<std::uint32_t> workers_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::unordered_map<std::uint64_t, std::uint64_t> arrives_;  // the last word, by pair
  SharedBoards boards_;
  std::map<std::string, coord::RunState> decoded_;  // as each host decodes it; the newest
  std::size_t timing_ = 0;                          // depth
  std::uint64_t states_ = 0, wholes_ = 0, state_bytes_ = 0;
};

}  // namespace lockstep::simulation

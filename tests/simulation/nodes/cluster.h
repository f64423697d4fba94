// A leader and its nodes without faults but those asked for: what events cost as N grows. Virtual
// time; words take 0.1 to 0.3 ms, workers 20 ms to be gone, an agent 2 s to come back. What the
// leader computes takes no virtual time, but is measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../clock.h"
#include "nodes/leader.h"
#include "nodes/node.h"

namespace lockstep::simulation {

struct Costs {
  std::uint64_t took = 0;  // virtual, until all nodes have started their workers
  std::uint64_t words_in = 0, words_out = 0;
  std::uint64_t bytes_in = 0, bytes_out = 0;
  std::uint64_t visits = 0;  // Leader::visits()
  double cpu_seconds = 0;    // of the leader, its coding and decoding included
};

class Cluster {
 public:
  // Of words on the wire; none: they are not coded.
  struct Codec {
    std::function<std::string(const nodes::NodeWord&)> encode_up;
    std::function<void(const std::string&)> decode_up;
    std::function<std::string(const nodes::LeaderWord&)> encode_down;
  };
  Cluster(int nodes, Codec codec, std::uint64_t limit = 15 * kSecond);

  Costs form();  // once, first; all agents are started within 100 ms
  Costs lose_worker();
  Costs lose_nodes(int count);  // their agents, at once
  Costs lose_leader();          // its agent; all connections are made again within 500 ms
  Costs rest(std::uint64_t time);

 private:
  struct Agent {
    std::unique_ptr<nodes::Node> node;
    nodes::Link link = nodes::kOwnLink;
    std::uint64_t told = 0;  // version
    nodes::Attempt run = 0;  // started
    bool killing = false;
    std::uint64_t up_at = 0, down_at = 0;  // the last word's arrival
  };

  void start_leader();
  void start(std::size_t i, std::uint64_t after);
  void connect(std::size_t i);
  std::uint64_t on_its_way(std::uint64_t& last);
  void say_up(std::size_t i);
  void flush(bool to_all);
  void say_down(std::size_t i);
  void obey(std::size_t i);
  void beat(std::size_t i);
  Costs until_running(nodes::Attempt attempt);
  Costs spent(std::uint64_t since);
  nodes::Row row(std::size_t i);
  std::uint64_t beat_time() const;
  template <class What>
  void timed(What what);

  nodes::Rules rules_;
  Codec codec_;
  Clock clock_;
  Random random_{1};
  std::optional<nodes::Leader> leader_;
  std::uint64_t told_ = 0;        // the leader's version
  std::vector<Agent> agents_;     // 0: the leader's own
  std::vector<std::size_t> who_;  // behind each link
  nodes::Incarnation incarnations_ = 0;
  std::size_t running_ = 0;  // agents whose workers are of attempt_
  nodes::Attempt attempt_ = 0;
  std::uint64_t visits_before_ = 0;
  Costs costs_;
};

}  // namespace lockstep::simulation

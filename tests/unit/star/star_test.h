// A leader and nodes of one run in one process, over real sockets: each node is a nodes::Node whose
// workers are a number. With them what is no node: connections of the test's own.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "control/dial.h"
#include "control/sockets.h"
#include "nodes/node.h"
#include "star/beat.h"
#include "star/hub.h"
#include "star/spoke.h"

namespace lockstep::star::test {

using namespace std::chrono_literals;

inline const std::string kKey = "0123456789abcdef0123456789abcdef";
inline const std::string kOtherKey = "fedcba9876543210fedcba9876543210";

inline std::shared_ptr<const control::TlsSettings> tls_of(const std::string& key) {
  return *control::TlsSettings::of(*control::RunKey::of(key, "test"));
}

// What a node's launcher is given.
struct Given {
  std::uint64_t incarnation = 1;
  std::optional<int> rank;
  message::Hello self;
  std::shared_ptr<const control::TlsSettings> tls = tls_of(kKey);
  std::uint32_t protocol = control::kProtocol;
  std::string machine = "machine";
  std::string address = "127.0.0.1";  // its end
};

class StarTest : public testing::Test {
 protected:
  void SetUp() override {
    auto made = Loop::open();
    ASSERT_TRUE(made.ok());
    loop.emplace(*std::move(made));
    timers = *control::Timers::open(*loop);
    rules.nodes = 3;
    rules.limit = 2'000'000'000;
    rules.join_timeout = 60'000'000'000;
  }

  struct Agent {
    Agent(const nodes::Rules& of_run, Given with, nodes::Row row)
        : given(std::move(with)), node(of_run, std::move(row), clock_ns(CLOCK_BOOTTIME)) {}
    Given given;
    nodes::Node node;
    std::unique_ptr<Spoke> spoke;  // none: the leader's own
    std::uint64_t said = 0;
    nodes::Attempt runs = 0;  // of which its "workers" live
    std::map<nodes::Attempt, int> ran;
    int words = 0;  // that it has heard
    int opened = 0, closed = 0;
    std::optional<nodes::Final> refused;
    Deadline beat = Deadline::in(0s);
  };

  message::Hello hello(int number) const {
    message::Hello self;
    self.run_id = "run";
    self.host = "host" + std::to_string(number);
    self.nodes = rules.nodes;
    self.max_restarts = rules.max_restarts;
    self.program = {"train.py"};
    return self;
  }
  Given given(int number) const {
    Given with;
    with.incarnation = static_cast<std::uint64_t>(number) + 1;
    with.self = hello(number);
    with.machine += std::to_string(number);
    return with;
  }
  nodes::Row row(const Given& with) const {
    return {with.rank, "", with.machine, with.incarnation, 2, "d", with.self.host};
  }

  void lead() { lead(given(0)); }
  void lead(Given with) {
    with.self.limit_ns = rules.limit;
    with.self.rank_given = with.rank.has_value();
    auto socket = control::listen_everywhere(port);
    ASSERT_TRUE(socket.ok()) << socket.error().message;
    port = control::Address::local_of(socket->get())->port();
    Hub::Plan plan;
    plan.rules = rules;
    plan.own = row(with);
    plan.run = 77;
    plan.self = with.self;
    plan.party = {with.protocol, with.incarnation, "1.2.3"};
    std::vector<Hub::ListenSocket> sockets;
    sockets.push_back({*std::move(socket), with.tls, false});
    Hub::Events events;
    events.news = [this] {
      if (leader) leader->said = 0;
    };
    events.failed = [this](const message::Failed& one) { failed.push_back(one.text); };
    auto opened = Hub::open(*loop, *timers, std::move(sockets), std::move(plan), std::move(events));
    ASSERT_TRUE(opened.ok()) << opened.error().message;
    hub = *std::move(opened);
    leader = std::make_unique<Agent>(rules, with, row(with));
    leader->node.has_taken_lock();
  }

  Agent& join(int number) { return join(given(number)); }
  Agent& join(const Given& with, int at_port = 0) {
    agents.push_back(std::make_unique<Agent>(rules, with, row(with)));
    Agent& agent = *agents.back();
    agent.node.has_taken_lock();
    connect(agent, at_port);
    return agent;
  }
  void connect(Agent& agent, int at_port = 0) {
    const Given& with = agent.given;
    Spoke::Plan plan;
    plan.host = find ? "leader.invalid" : "127.0.0.1";
    if (find) plan.find = find;
    plan.port = at_port != 0 ? at_port : port;
    plan.self = with.self;
    plan.self.rank_given = with.rank.has_value();
    plan.party = {with.protocol, with.incarnation, "1.2.3"};
    plan.tls = with.tls;
    plan.limit_ns = rules.limit;
    plan.from = control::Address::numeric(with.address, 0);
    Spoke::Events events;
    events.open = [&agent] { ++agent.opened, agent.said = 0; };
    events.word = [&agent](const nodes::LeaderWord& word) {
      ++agent.words;
      agent.node.heard(word, clock_ns(CLOCK_BOOTTIME));
    };
    events.closed = [&agent] { ++agent.closed, agent.node.closed(clock_ns(CLOCK_BOOTTIME)); };
    events.refused = [&agent](const nodes::Final& why) { agent.refused = why; };
    agent.spoke = std::make_unique<Spoke>(*loop, *timers, std::move(plan), std::move(events));
  }

  // What an agent does for its node.
  void go_on(Agent& agent) {
    nodes::Node& node = agent.node;
    node.tick(clock_ns(CLOCK_BOOTTIME));
    if (const nodes::Attempt attempt = node.wish().serve; attempt != 0)
      node.serves({attempt, "", 29'500, true});
    if (const nodes::Attempt attempt = node.wish().run; attempt != 0) {
      node.workers_started();
      agent.runs = attempt;
      ++agent.ran[attempt];
    }
    if (node.wish().signal != 0 && agent.runs != 0) {
      agent.runs = 0;
      node.workers_gone(false);
    }
    if (agent.beat.passed()) agent.said = 0;
    if (agent.said == node.version()) return;
    agent.said = node.version();
    agent.beat = Deadline::in(beat(rules.limit, rules.nodes));
    agent.spoke ? agent.spoke->say(node.word(clock_ns(CLOCK_BOOTTIME))) : exchange();
  }
  void exchange() {
    for (int round = 0; round < 4; ++round) {
      const std::uint64_t version = leader->node.version(), leaders = hub->leader().version();
      leader->node.heard(hub->exchange(leader->node.word(clock_ns(CLOCK_BOOTTIME))),
                         clock_ns(CLOCK_BOOTTIME));
      if (leader->node.version() == version && hub->leader().version() == leaders) return;
    }
  }
  void turn() {
    loop->run_once(Deadline::in(2ms));
    for (const auto& agent : agents)
      if (agent && agent->spoke) go_on(*agent);
    if (hub) go_on(*leader);
    check();
  }
  // Never two attempts at once.
  void check() {
    std::optional<nodes::Attempt> one;
    for (const auto& agent : agents)
      if (agent && agent->runs != 0) {
        EXPECT_TRUE(!one || *one == agent->runs) << *one << " and " << agent->runs;
        one = agent->runs;
      }
  }
  bool run_until(const std::function<bool()>& condition, std::chrono::milliseconds limit = 20s) {
    const Deadline end = Deadline::in(limit);
    while (!condition() && !end.passed()) turn();
    return condition();
  }
  void run_for(std::chrono::milliseconds time) {
    run_until([] { return false; }, time);
  }
  bool all_run(nodes::Attempt attempt) const {
    return leader->runs == attempt &&
           std::ranges::all_of(agents, [&](const auto& a) { return !a || a->runs == attempt; });
  }
  void all_end_well() {
    for (const auto& agent : agents)
      if (agent) agent->runs = 0, agent->node.workers_gone(true);
    leader->runs = 0, leader->node.workers_gone(true);
  }
  bool all_have_ended(int code) const {
    const auto has = [&](const Agent& agent) {
      return agent.node.ending() && agent.node.ending()->code == code;
    };
    return has(*leader) &&
           std::ranges::all_of(agents, [&](const auto& a) { return !a || has(*a); });
  }

  // Somebody who has the key, and is no node.
  struct Stranger {
    std::shared_ptr<control::Connection> connection;
    std::vector<star::Message> heard;
    std::optional<control::Failure> ended;
    bool done = false;
    std::unique_ptr<control::Dial> dial;
    // The newest of that kind.
    template <class Kind>
    const Kind* last() const {
      for (auto it = heard.rbegin(); it != heard.rend(); ++it)
        if (const auto* found = std::get_if<Kind>(&*it)) return found;
      return nullptr;
    }
  };
  std::unique_ptr<Stranger> stranger(std::uint64_t incarnation, bool reads = true) {
    auto one = std::make_unique<Stranger>();
    control::Dial::Plan plan;
    plan.host = "127.0.0.1";
    plan.port = port;
    plan.self = {control::kProtocol, incarnation, "1.2.3"};
    plan.tls = tls_of(kKey);
    plan.run_id = "run";
    one->dial = control::Dial::start(
        *loop, *timers, std::move(plan),
        [at = one.get(), reads](std::shared_ptr<control::Connection> connection, const auto&) {
          at->done = true;
          if (!connection) return;
          at->connection = std::move(connection);
          control::Connection::Events events;
          events.frame = [at](std::string_view frame) {
            if (auto message = star::decode(frame); message.ok())
              at->heard.push_back(*std::move(message));
          };
          events.ended = [at](const control::Failure& failure) { at->ended = failure; };
          if (reads) at->connection->hear(std::move(events));
        });
    EXPECT_TRUE(run_until([&] { return one->done; }));
    EXPECT_TRUE(one->connection);
    return one;
  }
  static void say(Stranger& one, const star::Message& message) {
    one.connection->send(*star::encode(message));
  }

  std::string log;
  LogSink sink{[this](std::string_view line) { log += line; }};
  nodes::Rules rules;
  control::FindAddresses find;  // none: the endpoint is an address
  std::optional<Loop> loop;
  std::unique_ptr<control::Timers> timers;
  int port = 0;
  std::unique_ptr<Hub> hub;
  std::unique_ptr<Agent> leader;
  std::vector<std::string> failed;  // why the run ended, as the leader believes it
  std::vector<std::unique_ptr<Agent>> agents;
};

}  // namespace lockstep::star::test

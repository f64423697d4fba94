#include "cluster.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace lockstep::simulation {

using nodes::Attempt;
using nodes::kOwnLink;
using nodes::LeaderWord;
using nodes::Link;
using nodes::NodeWord;

Cluster::Cluster(int nodes, Codec codec, std::uint64_t limit) : codec_(std::move(codec)) {
  rules_.nodes = nodes;
  rules_.max_restarts = 1'000'000;
  rules_.limit = limit;
  agents_.resize(static_cast<std::size_t>(nodes));
}

// As the room star has it.
std::uint64_t Cluster::beat_time() const {
  const std::uint64_t few = std::min(250 * kMillisecond, rules_.limit / 12);
  return std::min(few * std::max<std::uint64_t>(agents_.size(), 100) / 100, rules_.limit / 8);
}

template <class What>
void Cluster::timed(What what) {
  const auto before = std::chrono::steady_clock::now();
  what();
  costs_.cpu_seconds +=
      std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
}

nodes::Row Cluster::row(std::size_t i) {
  nodes::Row row;
  row.address = "10." + std::to_string(i / 65536) + "." + std::to_string(i / 256 % 256) + "." +
                std::to_string(i % 256);
  row.machine = "4b2b1dcb-a2c4-4f2e-9a5f-" + std::to_string(100'000 + i) + "/4026531840";
  row.incarnation = ++incarnations_ * 0x9e3779b97f4a7c15;
  row.workers = 8;
  row.role = "default";
  return row;
}

void Cluster::start_leader() {
  const nodes::Row own = row(0);
  const nodes::Leader::Record before = leader_ ? leader_->record() : nodes::Leader::Record{};
  visits_before_ += leader_ ? leader_->visits() : 0;
  leader_.emplace(rules_, own, incarnations_, before, clock_.now());
  agents_[0] = {};
  agents_[0].node = std::make_unique<nodes::Node>(rules_, own, clock_.now());
  agents_[0].node->has_taken_lock();
  who_.push_back(0);
}

void Cluster::start(std::size_t i, std::uint64_t after) {
  clock_.after(after, [this, i] {
    agents_[i].node = std::make_unique<nodes::Node>(rules_, row(i), clock_.now());
    agents_[i].node->has_taken_lock();
    agents_[i].run = 0;
    agents_[i].killing = false;
    connect(i);
  });
}

void Cluster::connect(std::size_t i) {
  agents_[i].link = who_.size();
  who_.push_back(i);
  say_up(i);
}

// Until a word arrives: behind the last one of its connection.
std::uint64_t Cluster::on_its_way(std::uint64_t& last) {
  last = std::max(last, clock_.now() + random_.between(100, 300) * kMicrosecond);
  return last - clock_.now();
}

void Cluster::say_up(std::size_t i) {
  Agent& agent = agents_[i];
  agent.told = agent.node->version();
  if (i == 0) return flush(false);
  const NodeWord word = agent.node->word(clock_.now());
  const std::string frame = codec_.encode_up ? codec_.encode_up(word) : "";
  clock_.after(on_its_way(agent.up_at), [this, i, link = agent.link, word, frame] {
    if (agents_[i].link != link) return;
    ++costs_.words_in;
    costs_.bytes_in += frame.size();
    timed([&] {
      if (codec_.decode_up) codec_.decode_up(frame);
      leader_->heard(link, word, clock_.now());
    });
    flush(false);
  });
}

// To all where the leader says so, else to those that alone have news; its own node first.
void Cluster::flush(bool to_all) {
  nodes::Node& own = *agents_[0].node;
  std::vector<Link> due;
  for (int i = 0; i < 4; ++i) {
    timed([&] {
      leader_->heard(kOwnLink, own.word(clock_.now()), clock_.now());
      own.heard(leader_->word_for(kOwnLink, clock_.now()), clock_.now());
    });
    obey(0);
    to_all = to_all || std::exchange(told_, leader_->version()) != leader_->version();
    for (const Link link : leader_->take_due()) due.push_back(link);
    if (std::exchange(agents_[0].told, own.version()) == own.version()) break;
  }
  if (!to_all) {
    for (const Link link : due)
      if (link != kOwnLink) say_down(who_[link]);
    return;
  }
  for (std::size_t i = 1; i < agents_.size(); ++i) say_down(i);
}

void Cluster::say_down(std::size_t i) {
  const Link link = agents_[i].link;
  if (link == kOwnLink) return;  // it is gone
  LeaderWord word;
  ++costs_.words_out;
  timed([&] {
    word = leader_->word_for(link, clock_.now());
    if (codec_.encode_down) costs_.bytes_out += codec_.encode_down(word).size();
  });
  clock_.after(on_its_way(agents_[i].down_at), [this, i, link, word] {
    if (agents_[i].link != link) return;
    agents_[i].node->heard(word, clock_.now());
    obey(i);
    if (agents_[i].told != agents_[i].node->version()) say_up(i);
  });
}

void Cluster::obey(std::size_t i) {
  Agent& agent = agents_[i];
  const nodes::Node::Wish wish = agent.node->wish();
  if (wish.serve != 0) agent.node->serves({wish.serve, "10.0.0.1", 29'500, true});
  if (wish.run != 0) {
    agent.node->workers_started();
    agent.run = wish.run;
    running_ += wish.run == attempt_ ? 1 : 0;
  }
  if (wish.signal == 0 || std::exchange(agent.killing, true)) return;
  clock_.after(20 * kMillisecond, [this, i, node = agent.node.get()] {
    if (agents_[i].node.get() != node) return;
    agents_[i].killing = false;
    agents_[i].node->workers_gone(false);
    say_up(i);
  });
}

void Cluster::beat(std::size_t i) {
  if (i == 0) {
    timed([&] { leader_->tick(clock_.now()); });
    agents_[0].node->tick(clock_.now());
    flush(true);
  } else if (agents_[i].link != kOwnLink) {
    agents_[i].node->tick(clock_.now());
    obey(i);
    say_up(i);
  }
  clock_.after(beat_time(), [this, i] { beat(i); });
}

Costs Cluster::spent(std::uint64_t since) {
  Costs costs = std::exchange(costs_, {});
  costs.took = clock_.now() - since;
  costs.visits = visits_before_ + leader_->visits();
  visits_before_ = 0 - leader_->visits();
  return costs;
}

Costs Cluster::until_running(Attempt attempt) {
  const std::uint64_t since = clock_.now();
  attempt_ = attempt;
  running_ = 0;
  while (running_ < agents_.size()) {
    require(clock_.step(), "nothing happens any more");
    require(clock_.now() < since + 600 * kSecond, "an attempt does not begin");
  }
  return spent(since);
}

Costs Cluster::form() {
  start_leader();
  beat(0);
  for (std::size_t i = 1; i < agents_.size(); ++i) {
    const std::uint64_t after = random_.between(0, 100 * kMillisecond);
    start(i, after);
    clock_.after(after + random_.between(1, beat_time()), [this, i] { beat(i); });
  }
  return until_running(1);
}

Costs Cluster::lose_worker() {
  const std::size_t i = agents_.size() - 1;
  agents_[i].node->workers_failed({0, 0, "rank 7 died", 1, false}, clock_.now());
  say_up(i);
  return until_running(attempt_ + 1);
}

Costs Cluster::lose_nodes(int count) {
  for (std::size_t k = 1; k <= static_cast<std::size_t>(count); ++k) {
    const std::size_t i = agents_.size() - k;
    const Link link = std::exchange(agents_[i].link, kOwnLink);
    clock_.after(random_.between(100, 300) * kMicrosecond, [this, link] {
      timed([&] { leader_->closed(link, clock_.now()); });
      flush(false);
    });
    start(i, 2 * kSecond);
  }
  return until_running(attempt_ + 1);
}

Costs Cluster::lose_leader() {
  for (std::size_t i = 1; i < agents_.size(); ++i) {
    agents_[i].link = kOwnLink;
    agents_[i].node->closed(clock_.now());
    clock_.after(random_.between(20, 500) * kMillisecond, [this, i] { connect(i); });
  }
  start_leader();
  return until_running(attempt_ + 1);
}

Costs Cluster::rest(std::uint64_t time) {
  const std::uint64_t since = clock_.now();
  while (clock_.now() < since + time) require(clock_.step(), "nothing happens any more");
  return spent(since);
}

}  // namespace lockstep::simulation

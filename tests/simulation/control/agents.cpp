// What agents say to each other.
#include <algorithm>
#include <utility>

#include "coord/keeper_wire.h"
#include "host.h"

namespace lockstep::simulation {
void ControlCluster::say(Host& host, std::size_t to) {
  std::string frame = host.agents.say(to, host.agent->say(hosts_[to]->agent->self(), clock_.now()));
  const auto said = quorum::decode(frame);
  if (said->facts.as != quorum::Carried::kName) ++states_, state_bytes_ += said->facts.bytes.size();
  if (said->facts.as == quorum::Carried::kWhole) ++wholes_;
  arrive_after(host.index, to, frame.size(),
               [this, from = host.index, frame](Host& at) { hear(at, from, frame); });
}

// Before there is a set all know but the endpoint's.
void ControlCluster::say_all(Host& host) {
  for (const auto& other : hosts_) {
    if (other.get() == &host || (!host.agent->facts().set && host.index * other->index != 0))
      continue;
    if (host.agent->speaks_to(other->agent->self(), clock_.now())) say(host, other->index);
  }
}

void ControlCluster::hear(Host& host, std::size_t from, const std::string& frame) {
  const auto heard = host.agents.hear(from, frame);
  require(heard.ok(), "an agent is not understood: " + (heard.ok() ? "" : heard.error().message));
  const bool waits = heard->message && host.agent->hear(*heard->message, clock_.now());
  serve(host);
  if (waits || heard->answer) say(host, from);
}

void ControlCluster::send(std::size_t from, std::size_t to, const std::string& frame,
                          bool to_leader) {
  arrive_after(from, to, frame.size(), [this, from, frame, to_leader](Host& host) {
    hear_frame(host, from, frame, to_leader);
  });
}

void ControlCluster::hear_frame(Host& host, std::size_t from, const std::string& frame,
                                bool to_leader) {
  if (!to_leader) {
    if (host.leader != from) return;
    const auto heard = host.talk->hear(frame);
    require(heard.ok(),
            "the leader is not understood: " + (heard.ok() ? "" : heard.error().message));
    if (const auto* word = std::get_if<coord::RunWord>(&*heard))
      return host.coordinator->note(word->pulses);
    hear_round(host, std::get<link::RoundMessage>(*heard));
    return serve(host);
  }
  if (!host.leading) return;
  const auto heard = host.leading->talks[from].hear(frame);
  require(heard.ok(), "a host is not understood: " + (heard.ok() ? "" : heard.error().message));
  if (const auto* said = std::get_if<link::RoundMessage>(&*heard)) {
    answered(host, *said);
  } else {
    host.coordinator->leads()->hear(from, std::get<coord::HostWord>(*heard), clock_.now());
  }
  serve(host);
}

// The agent looks at its news a moment later, at all at once.
void ControlCluster::serve(Host& host) {
  if (std::exchange(host.due, true)) return;
  clock_.after(100 * kMicrosecond, [this, &host] {
    host.due = false;
    if (host.is_alive) timed(host, [&] { serve_once(host); });
  });
}

void ControlCluster::serve_once(Host& host) {
  follow_leader(host);
  carry_out(host);
  follow(host);
  go_on_leading(host);
  go_on_with_rounds(host);
  require(!host.agent->ending(), "an agent ends");
  const quorum::Agent& agent = *host.agent;
  const auto says =
      std::tuple(agent.term(), agent.role(), agent.vote(), agent.leader(), agent.facts().stamp,
                 agent.in_force(), agent.acknowledged(), agent.has_turn(clock_.now()));
  if (std::exchange(host.said, says) != says) say_all(host);
}

void ControlCluster::follow_leader(Host& host) {
  const auto leader = host.agent->leader();
  if (!leader || !host.agent->facts().set) return;
  if (host.leader == leader->host && host.leads_in == host.agent->term()) return;
  host.talk->close();
  host.leader = leader->host;
  host.leads_in = host.agent->term();
  host.talk->open(host.coordinator->view());
}

// Its link closes pairs, which takes a moment.
void ControlCluster::carry_out(Host& host) {
  const Stamp stamp = host.agent->facts().stamp;
  if (host.agent->acknowledged() == stamp || host.carrying_out == stamp) return;
  host.carrying_out = stamp;
  clock_.after(200 * kMicrosecond, [this, &host, stamp] {
    if (!host.is_alive) return;
    timed(host, [&] { host.agent->acknowledge(stamp, clock_.now()); });
    serve(host);
  });
}

const coord::RunState& ControlCluster::decoded(const std::string& run) {
  const auto found = decoded_.find(run);
  if (found != decoded_.end()) return found->second;
  auto state = coord::decode_run_state(run);
  require(state.ok(), "a state is not understood");
  if (decoded_.size() > 3) decoded_.clear();
  return decoded_.emplace(run, *std::move(state)).first->second;
}

void ControlCluster::follow(Host& host) {
  const quorum::Facts& facts = host.agent->facts();
  if (!facts.set || host.agent->in_force() != facts.stamp || facts.stamp <= host.followed) return;
  host.followed = facts.stamp;
  if (facts.run.empty() || std::exchange(host.followed_run, facts.run) == facts.run) return;
  const coord::RunState& state = decoded(facts.run);
  turn(host, [&](coord::Coordinator& it) { return it.follow(state, clock_.now()); });
  host.talk->forget(state.facts.hosts[host.index].heard);
  host.talk->look(host.coordinator->view());
}

}  // namespace lockstep::simulation

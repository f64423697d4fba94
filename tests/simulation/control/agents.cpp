// What agents say to each other.
#include <algorithm>
#include <utility>

#include "coord/keeper_wire.h"
#include "host.h"

namespace lockstep::simulation {
namespace {

// Its fields at their width, without facts.
constexpr std::size_t kMessageBytes = 10 + 8 + 8 + 8 + 1 + 11 + 11 + 16 + 16 + 16 + 8 + 5;

std::size_t bytes_of(const quorum::Facts& facts) {
  constexpr std::size_t kMemberBytes = 10;
  return 60 + kMemberBytes * (facts.set.members.size() + facts.change.members.size()) +
         facts.run.size();
}

}  // namespace

// Facts that the other has are not carried.
void ControlCluster::say(Host& host, std::size_t to) {
  Message message = host.agent->say(hosts_[to]->agent->self(), clock_.now());
  const Stamp stamp = message.facts->stamp;
  const bool with_facts = host.has[to] != stamp;
  if (with_facts) ++states_, state_bytes_ += bytes_of(*message.facts);
  if (!with_facts) message.facts = quorum::Facts{.stamp = stamp};
  arrive_after(host.index, to, kMessageBytes,
               [this, message = std::move(message), with_facts](Host& at) {
                 hear(at, message, with_facts);
               });
}

// Before there is a set all know but the endpoint's.
void ControlCluster::say_all(Host& host) {
  for (const auto& other : hosts_) {
    if (other.get() == &host || (!host.agent->facts().set && host.index * other->index != 0))
      continue;
    if (host.agent->speaks_to(other->agent->self(), clock_.now())) say(host, other->index);
  }
}

void ControlCluster::hear(Host& host, Message message, bool with_facts) {
  const std::size_t from = message.from.host;
  const Stamp said = message.facts->stamp;
  host.has[from] = said;
  if (!with_facts && said == host.agent->facts().stamp)
    message.facts = host.agent->shared_facts();  // else this agent has newer ones
  const bool waits = host.agent->hear(message, clock_.now());
  serve(host);
  if (waits) say(host, from);
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
  const auto says = std::tuple(agent.term(), agent.role(), agent.vote(), agent.leader(),
                               agent.facts().stamp, agent.in_force(), agent.acknowledged());
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

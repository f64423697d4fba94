// Who leads, and what follows from what is in force.
#include <utility>

#include "base/log.h"
#include "base/seconds.h"
#include "base/text.h"
#include "launcher/hosts/hosts_run.h"

namespace lockstep::launcher {

// At the endpoint's agent: the first set, of all that have met, but for those that have ended.
void HostsRun::form_set() {
  quorum::Agent& agent = quorum_->agent();
  if (!mesh_->meeting().leads || agent.facts().set) return;
  quorum::Members members;
  for (const quorum::Member& member : quorum_->members())
    if (!ended_.contains(member.host)) members.insert(member);
  agent.form(members, now());
}

// True: the head has news.
bool HostsRun::follow_quorum() {
  quorum::Agent& agent = quorum_->agent();
  agent.pass(now());
  look_who_leads();
  // A host that a change takes out is kept from the others by the round that follows.
  agent.acknowledge(agent.facts().stamp, now());
  const bool news = follow_state();
  look_who_leads();
  return news;
}

// After each thing that the agent has heard, or done by itself: before anybody hears of it.
void HostsRun::look_who_leads() {
  const quorum::SharedFacts& facts = quorum_->agent().shared_facts();
  if (!known_.is_same_as(facts) && std::exchange(known_, facts)->run != facts->run) run_at_ = now();
  follow_leader();
  take_up_lead();
}

// Who makes the first set has nothing to say before it is in force.
void HostsRun::follow_leader() {
  const auto leader = quorum_->agent().leader();
  if (!leader || !quorum_->agent().facts().set) return;
  const std::uint64_t term = quorum_->agent().term();
  if (leader_ == leader->host && leads_in_ == term) return;
  talk_->close();
  if (leader_ && leader_ != leader->host && !is_self(leader->host))
    log_info("node " + std::to_string(leader->host) + " leads the run from now on");
  leader_ = leader->host;
  leads_in_ = term;
  link_->follow(term);
  mesh_->expect_words_of(*leader_);
  if (!is_self(*leader_) && mesh_->has(*leader_)) talk_->open(head_->coordinator().view());
}

// Who leads says so by itself, and why.
void HostsRun::tell_who_is_lost(const coord::RunFacts& facts) {
  for (std::size_t host = 0; host < facts.hosts.size(); ++host)
    if (facts.hosts[host].standing == coord::Standing::kOut && lost_.insert(host).second &&
        !lead_ && !is_self(host))
      log_warning("node " + std::to_string(host) + " is lost; the others go on");
}

bool HostsRun::follow_state() {
  const quorum::Agent& agent = quorum_->agent();
  const quorum::Facts& facts = agent.facts();
  const bool is_last = facts.final && facts.final->in_force;
  if (!facts.set || facts.run.empty() || facts.stamp <= followed_ ||
      (agent.in_force() != facts.stamp && !is_last))
    return false;
  followed_ = facts.stamp;
  auto state = coord::decode_run_state(facts.run);
  if (state.ok() && state->hosts.size() != quorum_->members().size())
    state = Error{ErrorKind::kBadData, "the run's state is of other hosts"};
  if (!state.ok()) {
    head_->leave(exit_code(ErrorKind::kBadData), for_terminal(state.error().message));
    return true;
  }
  tell_who_is_lost(state->facts);
  talk_->forget(state->facts.hosts[mesh_->self()].heard);
  clock_ = state->clock;
  clock_at_ = run_at_;
  head_->later([state = *std::move(state)](coord::Coordinator& it, std::uint64_t at) {
    return it.follow(state, at);
  });
  return true;
}

void HostsRun::take_up_lead() {
  quorum::Agent& agent = quorum_->agent();
  const bool leads = agent.leads(now()) && agent.facts().set;
  if (lead_ && (!leads || lead_->term() != agent.term())) lead_.reset();
  if (!leads || lead_) return;
  coord::RunState state;
  std::uint64_t as_of = now();
  if (agent.facts().run.empty()) {
    std::vector<std::uint32_t> workers;
    for (const auto& host : mesh_->formed().hosts) workers.push_back(host.workers);
    state = coord::first_state(workers, as_of);
  } else {
    auto taken = coord::decode_run_state(agent.facts().run);
    if (!taken.ok())
      return head_->leave(exit_code(ErrorKind::kBadData), for_terminal(taken.error().message));
    state = *std::move(taken);
    as_of = run_at_;
    log_info("this node leads the run from now on");
  }
  lead_ = std::make_unique<HostsLead>(
      HostsLead::Around{
          *head_, *link_, *mesh_, *quorum_, limit(),
          [this](std::size_t host, const std::string& bytes) { say(host, To::kHost, bytes); },
          [this](std::size_t host) { return ended_.contains(host); }, around_.look},
      state, as_of);
  talk_->close();
  talk_->open(head_->coordinator().view());
}

// It has ended if its machine refuses connections to its link's port, which it holds as long as it
// lives.
void HostsRun::knock_at(std::size_t host) {
  const auto at =
      control::Address::numeric(mesh_->address_of(host), mesh_->formed().hosts[host].link_port);
  if (!at) return;
  knocks_[host] =
      control::Knock::start(around_.loop, *timers_, *at, mesh_->meeting().from, [this, host] {
        knocks_.erase(host);
        ended_.insert(host);
        mesh_->drop(host);
        quorum_->agent().refused(quorum_->member(host), now());
        wake();
        around_.look();
      });
}

// Where another launcher may be started in the place of the endpoint's, which has ended. One that
// lives, and was cut off, is dialled again and hears it so.
void HostsRun::tell_who_comes() {
  const std::size_t host = mesh_->endpoint();
  const quorum::Set& set = quorum_->agent().facts().set;
  if (ended_.contains(host) && set && !set.has(quorum_->member(host))) mesh_->tell_at_endpoint();
}

bool HostsRun::end_if_due() {
  quorum::Agent& agent = quorum_->agent();
  if (const auto& end = head_->ended(); end && lead_)
    agent.end(end->exit_code, head_->ended_by(), now());
  const quorum::Set& set = agent.facts().set;
  if (set && !set.has(agent.self())) {  // nobody comes who was not there at first
    head_->leave(exit_code(ErrorKind::kResumable),
                 "this node was taken out of the run, which goes on without it");
    return true;
  }
  if (!agent.ending()) return false;
  if (agent.ending()->why != quorum::Ending::kFinal)
    lose_quorum();
  else
    head_->let_go();
  if (lead_) tell_who_may_not_know();
  return true;
}

void HostsRun::tell_who_may_not_know() const {
  for (const quorum::Member& member : quorum_->agent().facts().set.members)
    if (!quorum_->agent().have_newest().contains(member))
      log_warning("node " + std::to_string(member.host) +
                  " may not know that the run has ended: it is not heard");
}

void HostsRun::lose_quorum() {
  const bool is_formed = quorum_->agent().ending()->why != quorum::Ending::kNotFormed;
  const std::string time = seconds(quorum_->agent().ending()->waited);
  if (is_denied())
    return head_->leave(exit_code(ErrorKind::kResumable),
                        "node " + std::to_string(file_.other) +
                            " has the lock file (--tie-break), and was not heard for another " +
                            time +
                            ": it goes on alone, or has died; then the same command on both nodes "
                            "goes on from the last checkpoint");
  head_->leave(exit_code(ErrorKind::kResumable),
               is_formed ? "the launcher that leads has not been heard, and for another " + time +
                               " those that are heard were too few to go on; the same command on "
                               "all nodes goes on from the last checkpoint"
                         : "all nodes had come, and then the launcher at the endpoint was not "
                           "heard for " +
                               time +
                               ": the run has not begun, or is over; give the "
                               "same command on all nodes again");
}

}  // namespace lockstep::launcher

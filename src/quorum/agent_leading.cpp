// What a leader does.
#include <algorithm>
#include <utility>

#include "quorum/agent.h"

namespace lockstep::quorum {

// Rule 7. Before the first set there is nobody to be silent.
std::uint64_t Agent::quorum_age(std::uint64_t now) const {
  if (!facts_->set) return 0;
  return age(peers_.quorum_since(facts_->set, self_, ties_, now), now);
}

void Agent::look_at_quorum(std::uint64_t now) const {
  const std::uint64_t quorum_age = this->quorum_age(now);
  looked_at_ = now;
  quorum_at_ = quorum_age < now ? now - quorum_age : 0;
}

// More than it is, perhaps, but not where it matters.
std::uint64_t Agent::rough_quorum_age(std::uint64_t now) const {
  if (age(quorum_at_, now) >= settings_.silence / 2) look_at_quorum(now);
  return age(quorum_at_, now);
}

// Once for all to whom it is told in one moment.
std::uint64_t Agent::told_quorum_age(std::uint64_t now) const {
  if (looked_at_ != now) look_at_quorum(now);
  return age(quorum_at_, now);
}

bool Agent::leads(std::uint64_t now) const {
  return role_ == Role::kLeads && rough_quorum_age(now) < leads_for();
}

void Agent::stamp(Facts facts) {
  facts.stamp = facts_->stamp.term == term_ ? Stamp{term_, facts_->stamp.seq + 1} : Stamp{term_, 0};
  take(std::move(facts));
  has_.clear();
}

std::uint64_t Agent::draw_id() {  // as splitmix64 does
  std::uint64_t x = self_.incarnation + ++drawn_ * 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return (x ^ (x >> 31)) | 1;
}

void Agent::acknowledge(const Stamp& stamp, std::uint64_t now) {
  if (stamp != facts_->stamp) return;
  acknowledged_ = stamp;
  if (role_ != Role::kLeads) return;
  has_.insert(self_);
  finish(now);
}

// Rule 6: a quorum of the set before it has it. Of the first set: all of it.
bool Agent::is_in_force(const Members& acknowledged) const {
  if (facts_->set) return is_quorum(facts_->set, acknowledged);
  const std::vector<Member>& all = facts_->change.members;
  return acknowledged.size() >= all.size() &&  // else nobody needs to be looked for
         std::ranges::all_of(all, [&](const Member& one) { return acknowledged.contains(one); });
}

void Agent::finish(std::uint64_t now) {
  if (facts_->set && in_force_ != facts_->stamp && is_known(has_)) in_force_ = facts_->stamp;
  if (facts_->change && is_in_force(has_)) {
    Facts known;
    known.set = facts_->change;
    known.changes = facts_->changes + 1;
    if (!facts_->set) elected_ = now;
    settle(facts_, known);
    return enforce(now);
  }
  if (!finish(&Facts::stop, now)) finish(&Facts::final, now);
}

// The change is in force: says so.
void Agent::enforce(std::uint64_t now) {
  inherited_ = false;
  stamp(*facts_);
  if (!is_in_) return retire();
  if (leads(now)) return;
  retire();
  heard_ = now;  // the set before it has had a leader until now
}

// Rule 12.
bool Agent::finish(std::optional<Verdict> Facts::*which, std::uint64_t now) {
  const std::optional<Verdict>& verdict = (*facts_).*which;
  if (!verdict || verdict->known) return false;
  const bool in_force = verdict->in_force;
  if (!in_force && !(facts_->set && elects(has_))) return false;
  if (in_force && !all_know(now)) return false;
  Facts facts = *facts_;
  (in_force ? (facts.*which)->known : (facts.*which)->in_force) = true;
  stamp(std::move(facts));
  return true;
}

bool Agent::may_decide(const Members& members, std::uint64_t now) const {
  if (!leads(now) || !facts_->set || (facts_->change && inherited_)) return false;
  Members stay;
  std::set<std::uint16_t> hosts;
  for (const Member& member : members) {
    if (!hosts.insert(member.host).second) return false;  // a host twice
    const Peer& peer = peers_.at(member);
    if (facts_->set.has(member))
      stay.insert(member);
    else if (!is_present(member, now) || peer.was_in || peer.out)
      return false;
  }
  const bool takes_out = stay.size() < facts_->set.members.size();
  const bool changes = takes_out || members.size() > stay.size();
  if (facts_->change &&
      (!takes_out || changed(facts_->set, members, facts_->change.id) == facts_->change))
    return false;
  return changes && is_quorum(facts_->set, stay);
}

bool Agent::decide(const Members& members, std::string run, std::uint64_t now) {
  if (!may_decide(members, now)) return false;
  Facts facts = *facts_;
  facts.change = changed(facts_->set, members, draw_id());
  facts.attempt = {};
  facts.run = std::move(run);
  inherited_ = false;
  stamp(std::move(facts));
  return true;
}

bool Agent::write(std::string run, std::uint64_t now) {
  if (!leads(now)) return false;
  Facts facts = *facts_;
  facts.run = std::move(run);
  stamp(std::move(facts));
  return true;
}

bool Agent::decide(std::optional<Verdict> Facts::*which, int code, std::string text) {
  Facts facts = *facts_;
  if (!facts.set || facts.*which) return false;
  facts.*which = Verdict{.code = code, .text = std::move(text)};
  stamp(std::move(facts));
  return true;
}

bool Agent::stop(int code, std::string text, std::uint64_t now) {
  return leads(now) && decide(&Facts::stop, code, std::move(text));
}

bool Agent::end(int code, std::string text, std::uint64_t now) {
  return leads(now) && decide(&Facts::final, code, std::move(text));
}

// The old workers of those that it has lost run no more by then.
std::uint64_t Agent::start_at() const {
  std::uint64_t at = elected_ + settings_.grace;
  for (const auto& [member, peer] : peers_)
    if (peer.was_in && peer.sign != 0 && !(facts_->set.has(member) && has_.contains(member)))
      at = std::max(at, peer.sign + settings_.silence + settings_.grace);
  return at;
}

bool Agent::may_start(std::uint64_t now) const {
  if (!leads(now) || !facts_->set || facts_->change || facts_->attempt != Stamp{}) return false;
  if (facts_->stop || facts_->final) return false;
  return now >= start_at() &&
         std::ranges::all_of(facts_->set.members,
                             [this](const Member& member) { return has_.contains(member); });
}

bool Agent::start_attempt(std::uint64_t now) {
  if (!may_start(now)) return false;
  Facts facts = *facts_;
  facts.attempt = {term_, facts_->stamp.seq + 1};
  stamp(std::move(facts));
  pass(now);
  return true;
}

bool Agent::end_attempt(std::uint64_t now) {
  if (!leads(now) || facts_->attempt == Stamp{}) return false;
  Facts facts = *facts_;
  facts.attempt = {};
  stamp(std::move(facts));
  return true;
}

}  // namespace lockstep::quorum

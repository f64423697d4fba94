// What it says and hears.
#include "quorum/agent.h"

#include <algorithm>
#include <utility>

namespace lockstep::quorum {

Agent::Agent(const Settings& settings, const Member& self, std::uint64_t now)
    : settings_(settings), self_(self), fence_(settings.silence), passed_(now), began_(now) {
  ties_.by_file = settings.by_file;
}

bool Agent::hears_leader(std::uint64_t now) const {
  if (role_ == Role::kLeads) return leads(now);
  return is_sticky() && age(heard_, now) < settings_.silence;
}

std::optional<Member> Agent::leader() const {
  return role_ == Role::kLeads ? std::optional(self_) : obeys_;
}

bool Agent::is_present(const Member& other, std::uint64_t now) const {
  const std::uint64_t sign = peers_.at(other).sign;
  return other == self_ || (sign != 0 && age(std::max(sign, woke_), now) < settings_.silence);
}

Members Agent::silent(std::uint64_t now) const {
  Members silent;
  const bool all_count = age(elected_, now) >= settings_.silence;
  for (const Member& member : facts_->set.members) {
    const bool was_to_speak = member == missed_ && peers_.at(member).sign != 0;  // not refused
    if ((all_count || was_to_speak) && !is_present(member, now)) silent.insert(member);
  }
  return silent;
}

Members Agent::present(std::uint64_t now) const {
  Members present;
  for (const auto& [member, peer] : peers_)
    if (is_present(member, now) && !peer.out) present.insert(member);
  return present;
}

bool Agent::has_vote() const { return has_vote_; }

// You are in my set, and I hear no leader, or you are it.
bool Agent::would_vote(const Member& candidate, std::uint64_t now) const {
  return has_vote() && !is_out() &&
         (!hears_leader(now) || (role_ == Role::kFollows && obeys_ == candidate)) &&
         facts_->set.has(candidate);
}

bool Agent::may_vote(const Message& request, std::uint64_t now) const {
  return has_vote() && facts_->set.has(request.from) && !hears_leader(now) && !voted_;
}

Message Agent::say(const Member& to, std::uint64_t now) const {
  return {.from = self_,
          .sent = now,
          .echo = peers_.at(to).theirs,
          .term = term_,
          .role = role_,
          .vote = vote_,
          .obeys = obeys_,
          .facts = facts_,
          .acknowledged = acknowledged_,
          .in_force = in_force_,
          .quorum_age = role_ == Role::kLeads ? told_quorum_age(now) : kForever,
          .hears = hears_leader(now),
          .would = would_vote(to, now),
          .you_were_in = peers_.at(to).was_in,
          .out = is_out(),
          .attempt_is_over = fence_.is_over(facts_->attempt)};
}

bool Agent::speaks_to(const Member& to, std::uint64_t now) const {
  if (role_ != Role::kFollows || ending_ || is_out() || !has_vote()) return true;
  if (obeys_ == to) return true;
  const bool any_waits =
      age(waited_, now) < settings_.silence;  // else nobody needs to be looked up
  if (any_waits && age(peers_.at(to).waited, now) < settings_.silence) return true;
  if (hears_leader(now)) return false;
  return has_turn(now) || vote_ == self_;  // has led, or asked, in this term: it lives
}

// True: it waits for an answer, and has got none just now.
bool Agent::note(const Message& message, std::uint64_t now) {
  Peer& peer = peers_[message.from];
  if (!message.out) peer.sign = now;
  peer.out = message.out;
  highest_ = std::max(highest_, message.term);
  const bool leads = message.role == Role::kLeads;
  const bool waits = leads ? obeys_ != message.from : !message.hears;
  peer.waited = waits ? now : 0;
  if (!waits) return false;
  waited_ = now;
  if (age(peer.owed, now) < settings_.silence / 24) return false;
  peer.owed = now;
  return true;
}

bool Agent::hear(const Message& message, std::uint64_t now) {
  pass(now);  // what has fallen due comes first
  if (ending_ || message.from == self_) return false;
  const bool waits = note(message, now);
  if (is_out()) return waits;
  Peer& peer = peers_[message.from];
  would_ = would_ - (peer.would != 0 ? 1 : 0) + (message.would ? 1 : 0);
  peer.would = message.would ? now : 0;
  read(message, now);
  if (!message.out && follow_term(message, now) && message.term == term_) {
    if (message.role == Role::kAsks) vote(message, now);
    if (message.role == Role::kLeads) obey(message, now);
    if (message.role == Role::kFollows) {
      take_answer(message, now);
      take_vote(message, now);
    }
  }
  pass(now);
  return waits;
}

// Rule 1.
void Agent::read(const Message& message, std::uint64_t now) {
  SharedFacts told = message.facts;
  settle(told, *facts_);
  if (settle(facts_, *told)) {
    take(facts_);
    enter(told->stamp.term);
    if (role_ == Role::kLeads) enforce(now);
  }
  if (told->set && is_newer(*told, *facts_)) {
    if (role_ == Role::kLeads) retire();
    if (!facts_->set) obeys_.reset();  // a maker
    take(told);
    enter(told->stamp.term);
    if (!told->set.has(message.from)) heard_ = now;  // as if it had heard a leader
  }
  if (role_ == Role::kAsks && told->stamp.term >= term_) retire();  // somebody was elected
  was_in_ = was_in_ || message.you_were_in;                         // and out again, before it knew
}

void Agent::take(SharedFacts facts) {
  facts_ = std::move(facts);
  looked_at_ = quorum_at_ = 0;
  if (std::exchange(remembered_, facts_->set.id) != facts_->set.id) peers_.remember(facts_->set);
  is_in_ = facts_->set.has(self_);
  has_vote_ = is_in_ || (facts_->set && facts_->change.has(self_));
  was_in_ = was_in_ || is_in_;
  if (facts_->set) maker_.reset();
}

// Whoever has read facts of a term is in it, and has voted in it.
void Agent::enter(std::uint64_t term) {
  if (term > term_) begin_term(term);
  if (term == term_) voted_ = true;
}

void Agent::begin_term(std::uint64_t term) {
  if (role_ != Role::kFollows) retire();
  term_ = term;
  vote_.reset();
  obeys_.reset();
  voted_ = false;
  looked_at_ = quorum_at_ = 0;
  peers_.begin_term();
}

// False: whoever says it is of no concern.
bool Agent::follow_term(const Message& message, std::uint64_t now) {
  const bool leads = message.role == Role::kLeads, asks = message.role == Role::kAsks;
  if (message.term > term_ && role_ == Role::kLeads && facts_->set.has(message.from))
    higher_ = std::max(higher_, message.term);
  const bool is_of_it = (is_in_ && message.facts->set.id == facts_->set.id) ||
                        message.facts->set.has(self_) || message.facts->change.has(self_);
  if (leads && !is_of_it) return false;
  if (leads && !message.facts->set && !obeys_maker(message)) return false;
  if (message.term <= term_) return true;
  const bool mine = role_ == Role::kFollows && obeys_ == message.from;
  if (!leads && !(asks && facts_->set.has(message.from) && (!hears_leader(now) || mine)))
    return false;
  if (asks && mine) heard_ = 0;  // it leads no more
  begin_term(message.term);
  return true;
}

// Rule 8: who has acknowledged one maker's first set obeys another only if that one answers where
// the first did, which then is dead.
bool Agent::obeys_maker(const Message& maker) const {
  if (facts_->set) return false;
  return !maker_ || *maker_ == maker.from || (maker_place_ != 0 && maker_place_ == maker.place);
}

void Agent::vote(const Message& request, std::uint64_t now) {
  if (role_ != Role::kFollows || obeys_ || !may_vote(request, now)) return;
  vote_ = request.from;
  voted_ = true;
  peers_[request.from].theirs = request.sent;
}

void Agent::obey(const Message& heartbeat, std::uint64_t now) {
  if (role_ != Role::kFollows || (obeys_ && *obeys_ != heartbeat.from && facts_->set)) return;
  obeys_ = heartbeat.from;
  voted_ = true;
  if (!heartbeat.facts->set && (maker_ != heartbeat.from || is_newer(*heartbeat.facts, *facts_))) {
    take(heartbeat.facts);
    maker_ = heartbeat.from;
    maker_place_ = heartbeat.place;
  }
  Peer& leader = peers_[heartbeat.from];
  leader.theirs = std::max(leader.theirs, heartbeat.sent);
  in_force_ = std::max(in_force_, heartbeat.in_force);
  if (heartbeat.quorum_age >= settings_.silence) return;
  heard_ = now;
  if (heartbeat.echo > heartbeat.quorum_age) fence_.renew(heartbeat.echo - heartbeat.quorum_age);
}

void Agent::take_answer(const Message& answer, std::uint64_t now) {
  if (role_ != Role::kLeads || answer.obeys != self_) return;
  Peer& peer = peers_[answer.from];
  peer.answered = std::max(peer.answered, answer.echo);
  peer.theirs = std::max(peer.theirs, answer.sent);
  if (answer.attempt_is_over && answer.facts->attempt == facts_->attempt) end_attempt(now);
  if (answer.acknowledged != facts_->stamp) return;
  has_.insert(answer.from);
  finish(now);
}

void Agent::take_vote(const Message& vote, std::uint64_t now) {
  if (role_ != Role::kAsks || vote.vote != self_ || vote.obeys) return;
  Peer& peer = peers_[vote.from];
  peer.answered = std::max(peer.answered, vote.echo);
  peer.theirs = std::max(peer.theirs, vote.sent);
  votes_.insert(vote.from);
  win(now);
}

}  // namespace lockstep::quorum

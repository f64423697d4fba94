// How it comes to lead: asking, elections, and the first set, made without one.
#include <algorithm>
#include <utility>

#include "quorum/agent.h"

namespace lockstep::quorum {

void Agent::pass(std::uint64_t now) {
  if (ending_) return;
  if (now - passed_ >= settings_.silence / 2) alone_since_ = now;  // it has slept
  if (now - passed_ >= settings_.silence / 4) woke_ = now;
  passed_ = now;
  if (role_ == Role::kLeads) {
    if (rough_quorum_age(now) >= leads_for()) {
      retire();
      fence_.end();
    } else {
      fence_.renew(now - rough_quorum_age(now));
      finish(now);
    }
  }
  const bool obeys = role_ == Role::kLeads || obeys_;
  fence_.pass(is_out() ? Stamp{} : facts_->attempt, obeys && is_in_, now);
  end_if_due(now);
  if (ending_) return fence_.end();
  ask_if_due(now);
}

void Agent::refused(const Member& other, std::uint64_t now) {
  if (settings_.plain) return;
  peers_[other].sign = 0;
  if (role_ == Role::kLeads || obeys_ != other) return;
  heard_ = 0;
  pass(now);
}

std::uint64_t Agent::my_stagger() const {
  const auto& members = facts_->set.members;
  const auto place = std::ranges::find(members, self_) - members.begin();
  return static_cast<std::uint64_t>(place) * settings_.stagger;
}

// Rule 4. Whether the others would vote for it stands in what they say anyway.
void Agent::ask_if_due(std::uint64_t now) {
  const bool wants = role_ == Role::kLeads ? higher_ > term_ : !hears_leader(now);
  if (!wants || !is_in_) {
    ask_at_ = 0;
    return;
  }
  if (ask_at_ == 0) ask_at_ = now + (role_ == Role::kLeads ? 0 : my_stagger());
  if (!has_turn(now) || !would_win(now)) return;
  ask(now);
  ask_at_ = now + settings_.silence / 4 + my_stagger();  // two that have asked at once are apart
}

bool Agent::would_win(std::uint64_t now) const {
  if (2 * (would_ + 1) < facts_->set.members.size()) return false;
  Members would{self_};
  for (const auto& [member, peer] : peers_)
    if (age(peer.would, now) < settings_.silence) would.insert(member);
  return elects(would);
}

// In earnest, in a term above every one that it has heard of.
void Agent::ask(std::uint64_t now) {
  const std::uint64_t term = std::max({term_, highest_, higher_}) + 1;
  if (role_ != Role::kAsks) missed_ = obeys_;
  begin_term(term);
  role_ = Role::kAsks;
  vote_ = self_;
  voted_ = true;
  votes_ = {self_};
  heard_ = 0;
  win(now);
}

bool Agent::is_quorum(const Set& set, const Members& who) const {
  return quorum::is_quorum(set, who, ties_);
}

// Rule 5. Its own facts are the newest of the votes': it takes newer ones as it reads them.
bool Agent::elects(const Members& votes) const {
  return is_quorum(facts_->set, votes) && (!facts_->change || is_quorum(facts_->change, votes));
}

void Agent::win(std::uint64_t now) {
  if (!is_in_ || !elects(votes_)) return;
  role_ = Role::kLeads;
  if (quorum_age(now) >= leads_for()) return retire();  // the votes have come too late
  heard_ = higher_ = 0;
  elected_ = now;
  inherited_ = static_cast<bool>(facts_->change);
  stamp(*facts_);
}

// Leads, or asks, no more.
void Agent::retire() {
  role_ = Role::kFollows;
  higher_ = 0;
  has_.clear();
  votes_.clear();
  inherited_ = false;
}

bool Agent::form(const Members& all, std::uint64_t now) {
  if (facts_->set || !all.contains(self_) || (maker_ && *maker_ != self_)) return false;
  Members members = all;
  if (age(began_, now) >= settings_.silence)
    std::erase_if(members, [&](const Member& one) { return !is_present(one, now); });
  if (role_ != Role::kLeads)
    lead_first(now);
  else if (changed({}, members, facts_->change.id) == facts_->change)
    return false;
  Facts facts = *facts_;
  facts.change = changed({}, members, draw_id());
  stamp(std::move(facts));
  return true;
}

// Whoever makes the first set: nobody votes.
void Agent::lead_first(std::uint64_t now) {
  begin_term(std::max(term_, highest_) + 1);
  role_ = Role::kLeads;
  vote_ = maker_ = self_;
  voted_ = true;
  elected_ = now;
}

}  // namespace lockstep::quorum

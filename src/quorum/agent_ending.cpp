// When it ends, and the rule for two.
#include <algorithm>

#include "quorum/agent.h"

namespace lockstep::quorum {
namespace {

constexpr int kResumable = 75, kNotFormed = 69;

}  // namespace

// The final: or they are gone.
bool Agent::all_know(std::uint64_t now) const {
  return has_.contains(self_) &&
         std::ranges::all_of(facts_->set.members, [&](const Member& member) {
           return has_.contains(member) || !is_present(member, now);
         });
}

void Agent::end(Ending::Why why, int code, std::uint64_t waited) {
  ending_ = Ending{why, code, waited};
  if (facts_->final && facts_->final->in_force)
    ending_ = Ending{Ending::kFinal, facts_->final->code};
}

// Rules 8 to 10, 12.
void Agent::end_if_due(std::uint64_t now) {
  const bool known = facts_->final && facts_->final->known && acknowledged_ == facts_->stamp;
  if (known && (role_ != Role::kLeads || all_know(now))) return end(Ending::kFinal, 0);
  if (is_out()) {  // tells its facts meanwhile
    if (out_since_ == 0) out_since_ = now;
    const bool taken = std::ranges::any_of(
        facts_->set.members, [this](const Member& one) { return one.host == self_.host; });
    if (now - out_since_ >= settings_.silence)
      end(taken ? Ending::kNotFormed : Ending::kTakenOut, taken ? kNotFormed : kResumable);
    return;
  }
  if (!is_in_) {
    if (now - began_ >= settings_.join_timeout) end(Ending::kNotFormed, kNotFormed, now - began_);
    return;
  }
  if (hears_leader(now)) {
    alone_since_ = 0;
    return;
  }
  if (alone_since_ == 0 || wanted_file(now)) alone_since_ = now;
  const std::uint64_t silence = settings_.silence;
  const std::uint64_t limit =
      settings_.plain
          ? settings_.join_timeout
          : std::max(3 * silence, 2 * silence + facts_->set.members.size() * settings_.stagger);
  if (now - alone_since_ < limit) return;
  end(settings_.plain ? Ending::kNotFormed : Ending::kNoQuorum,
      settings_.plain ? kNotFormed : kResumable, now - alone_since_);
}

// Whoever has a final in force has nothing left to decide.
std::optional<std::uint64_t> Agent::open_file() const {
  const Set& set = facts_->set;
  if (!ties_.by_file || set.members.size() != 2 || !set.has(self_)) return {};
  if (facts_->final && facts_->final->in_force) return {};
  if (ties_.file == set.id || denied_ == set.id) return {};
  return set.id;
}

std::optional<std::uint64_t> Agent::wanted_file(std::uint64_t now) const {
  if (!open_file() || hears_leader(now)) return {};
  const auto& members = facts_->set.members;
  if (is_present(members[members[0] == self_ ? 1 : 0], now)) return {};
  return open_file();
}

void Agent::file_answered(std::uint64_t set, bool has, std::uint64_t now) {
  (has ? ties_.file : denied_) = set;
  pass(now);
}

}  // namespace lockstep::quorum

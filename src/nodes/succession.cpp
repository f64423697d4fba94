#include "nodes/succession.h"

#include <algorithm>
#include <tuple>

namespace lockstep::nodes {
namespace {

// For an answer of a place: an agent at the first one waits no longer for others.
constexpr std::uint64_t kAnswer = 300'000'000;
constexpr std::uint64_t kTurn = 500'000'000;  // between one place and the next

}  // namespace

bool goes_on(const Lead& one, const Lead& other) {
  return std::tuple(one.active, one.attempt, -one.place) >
         std::tuple(other.active, other.attempt, -other.place);
}

Succession::Succession(int places, int own, Times times, std::uint64_t now)
    : places_(static_cast<std::size_t>(places)), own_(own), times_(times), without_since_(now) {}

void Succession::found_nobody(int place, std::uint64_t now) {
  Place& there = at(place);
  there.lead.reset();
  if (!there.nobody_since) there.nobody_since = now;
}

void Succession::found_silence(int place) {
  at(place).lead.reset();
  at(place).nobody_since.reset();
}

void Succession::found(const Lead& lead, std::uint64_t now) { at(lead.place) = {{}, lead, now}; }

void Succession::look(std::uint64_t without_since, std::uint64_t now) {
  if (looks_since_) return;
  looks_since_ = now;
  without_since_ = without_since;
  std::ranges::fill(places_, Place());
}

// They do not claim the lead at once, and not for ever one after the other.
std::uint64_t Succession::turn() const {
  return static_cast<std::uint64_t>(own_) * std::min(kTurn, times_.limit / 8);
}

// Before its own turn comes an earlier place has its time to lead: a launcher that is started again
// within a second leads as before. A later one is merely asked.
bool Succession::is_free(int place, std::uint64_t now) const {
  const Place& there = places_[static_cast<std::size_t>(place)];
  if (there.lead) return false;
  if (place == own_) return true;
  if (place > own_) return there.nobody_since || now >= *looks_since_ + kAnswer;
  if (there.nobody_since) return now >= *there.nobody_since + times_.redial + turn();
  const std::uint64_t since = std::max(without_since_, there.led_at);
  return now >= std::max(since + times_.limit + turn(), *looks_since_ + kAnswer);
}

bool Succession::may_lead(std::uint64_t now) const {
  if (own_ < 0 || !looks_since_) return false;
  for (int place = 0; place < static_cast<int>(places_.size()); ++place)
    if (!is_free(place, now)) return false;
  return true;
}

std::optional<int> Succession::whom_to_follow(int target, bool is_led) const {
  const std::optional<Lead>* best = nullptr;
  for (const Place& there : places_)
    if (there.lead && (best == nullptr || goes_on(*there.lead, **best))) best = &there.lead;
  if (best == nullptr || (*best)->place == target) return std::nullopt;
  const bool is_gone = target < 0 || places_[static_cast<std::size_t>(target)].nobody_since;
  if (is_led && !is_gone) return std::nullopt;
  return (*best)->place;
}

bool Succession::yields(const Lead& own) const {
  return !own.active && std::ranges::any_of(places_, [&](const Place& there) {
    return there.lead && there.lead->place != own_ && goes_on(*there.lead, own);
  });
}

}  // namespace lockstep::nodes

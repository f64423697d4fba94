#include "quorum/facts.h"

#include <tuple>

namespace lockstep::quorum {

SharedFacts::SharedFacts() {
  static const auto kNone = std::make_shared<const Facts>();
  facts_ = kNone;
}

bool is_newer(const Facts& facts, const Facts& than) {
  const auto age = [](const Facts& one) {
    const bool in_force = static_cast<bool>(one.set);
    return std::tuple(in_force || one.anew, one.stamp.term, in_force, one.stamp.seq);
  };
  return age(facts) > age(than);
}

bool settle(Facts& facts, const Facts& known) {
  if (!facts.change || facts.change.id != known.set.id) return false;
  if (!facts.set) facts.history = facts.change.id;
  facts.set = facts.change;
  facts.change = {};
  facts.changes = known.changes;
  facts.attempt = {};
  facts.anew = false;
  return true;
}

bool settle(SharedFacts& facts, const Facts& known) {
  if (!facts->change || facts->change.id != known.set.id) return false;
  Facts settled = *facts;
  settle(settled, known);
  facts = std::move(settled);
  return true;
}

}  // namespace lockstep::quorum

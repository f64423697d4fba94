#include "quorum/facts.h"

#include <tuple>

namespace lockstep::quorum {

SharedFacts::SharedFacts() {
  static const auto kNone = std::make_shared<const Facts>();
  facts_ = kNone;
}

bool is_newer(const Facts& facts, const Facts& than) {
  const auto age = [](const Facts& one) {
    return std::tuple(static_cast<bool>(one.set), one.stamp);
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

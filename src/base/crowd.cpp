#include "base/crowd.h"

namespace lockstep {

Crowd::Place Crowd::place_of(const std::set<Id>& ids) {
  return {-static_cast<std::ptrdiff_t>(ids.size()), *ids.begin()};
}

void Crowd::add(Id id, const std::string& address) {
  if (!addresses_.emplace(id, address).second) return;
  std::set<Id>& ids = by_address_[address];
  if (!ids.empty()) places_.erase(place_of(ids));
  ids.insert(id);
  places_.insert(place_of(ids));
}

void Crowd::remove(Id id) {
  const auto found = addresses_.find(id);
  if (found == addresses_.end()) return;
  const auto of_address = by_address_.find(found->second);
  std::set<Id>& ids = of_address->second;
  places_.erase(place_of(ids));
  ids.erase(id);
  if (ids.empty())
    by_address_.erase(of_address);
  else
    places_.insert(place_of(ids));
  addresses_.erase(found);
}

std::size_t Crowd::of(const std::string& address) const {
  const auto found = by_address_.find(address);
  return found == by_address_.end() ? 0 : found->second.size();
}

std::optional<Crowd::Id> Crowd::first_to_go() const {
  if (places_.empty()) return std::nullopt;
  return places_.begin()->second;
}

}  // namespace lockstep

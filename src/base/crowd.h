// Connections that nobody has to keep, by the address that they come from: where there is no place
// for one more, the oldest goes of the address that has most of them. So whoever floods a port
// displaces itself; of many addresses with one each the oldest goes.
//
// Cost: O(log n) a call. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace lockstep {

class Crowd {
 public:
  using Id = std::uint64_t;  // numbered in the order in which they come

  void add(Id id, const std::string& address);
  void remove(Id id);  // does nothing if it is not there
  bool contains(Id id) const { return addresses_.contains(id); }
  std::size_t size() const { return addresses_.size(); }
  std::size_t of(const std::string& address) const;
  // Nothing: there is nobody.
  std::optional<Id> first_to_go() const;

 private:
  using Place = std::pair<std::ptrdiff_t, Id>;  // minus how many of its address, the oldest of them
  static Place place_of(const std::set<Id>& ids);

  std::map<Id, std::string> addresses_;
  std::map<std::string, std::set<Id>> by_address_;  // none is empty
  std::set<Place> places_;                          // one for each address
};

}  // namespace lockstep

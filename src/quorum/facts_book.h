// The last few facts that an agent has had, and heard: what differences are to, and from.
//
// Threads: one at a time. Errors: none.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "quorum/facts.h"
#include "quorum/wire.h"

namespace lockstep::quorum {

class FactsBook {
 public:
  // Whoever is so many stamps behind gets them whole.
  static constexpr std::size_t kMost = 10;

  // They are its newest entry now.
  FactsName add(const SharedFacts& facts);
  void add(const FactsName& name, SharedFacts facts);  // of that name
  const SharedFacts* find(
      const FactsName& name) const;  // nullptr: it does not have them (any more)

  // Of facts that it has: as bytes; and as a difference to others, empty where it does not have
  // those, or nothing is won by it. Valid until facts of another name are asked for: all that is to
  // be said of one state is computed once for all that it is said to.
  std::string_view whole(const FactsName& name);
  std::string_view difference(const FactsName& base, const FactsName& name);

 private:
  struct Entry {
    FactsName name;
    SharedFacts facts;
  };
  void ask_for(const FactsName& name);

  std::deque<Entry> entries_;  // the newest last
  FactsName asked_;
  std::string whole_;                             // of asked_; empty: not yet
  std::map<FactsName, std::string> differences_;  // to asked_, by base
};

}  // namespace lockstep::quorum

// What all agents of a run know: the leader alone writes it, in stamps (docs/design/leader.md).
//
// Threads: values. Errors: none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/stamp.h"
#include "quorum/set.h"

namespace lockstep::quorum {

using lockstep::Stamp;

// What the run ends with, or is to. Nobody acts on it before it is in force.
struct Verdict {
  int code = 0;
  std::string text = {};
  bool in_force = false;
  bool known = false;  // to all of the set that are not gone
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

struct Facts {
  Stamp stamp = {};
  std::uint64_t history = 0;  // id of the first set
  Set set = {};               // in force
  Set change = {};            // under way: the set that is to follow
  std::uint64_t changes = 0;  // sets that have been in force
  Stamp attempt = {};         // of plain programs: whose workers may run. None: {}
  std::optional<Verdict> stop = {}, final = {};
  std::string run = {};  // the run's own, of which nothing is known here

  friend bool operator==(const Facts&, const Facts&) = default;
};

// Facts that nobody changes any more. Copies are one: they cost nothing, however long the run's
// state is.
class SharedFacts {
 public:
  SharedFacts();
  SharedFacts(Facts facts)  // NOLINT(google-explicit-constructor): facts are shared facts
      : facts_(std::make_shared<const Facts>(std::move(facts))) {}
  const Facts& operator*() const { return *facts_; }
  const Facts* operator->() const { return facts_.get(); }
  bool is_same_as(const SharedFacts& other) const { return facts_ == other.facts_; }  // one value

 private:
  std::shared_ptr<const Facts> facts_;  // never null
};

// Facts with a set in force are newer than any without.
bool is_newer(const Facts& facts, const Facts& than);

// In force is for ever: what is under way in `facts` and in force in `known` is in force in both.
// True: it was so, and `facts` say so now.
bool settle(Facts& facts, const Facts& known);
bool settle(SharedFacts& facts, const Facts& known);

}  // namespace lockstep::quorum

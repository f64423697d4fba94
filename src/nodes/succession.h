// Who leads a run whose agents were given several places where one may lead, in order. An agent
// leads at a place of its own machine, where it then answers; nobody answers at a place without a
// leader. Pure. docs/decisions/0048 has the rules.
//
// It is told what is found at the other places, and says whether this agent leads, whom it follows,
// and whether one that leads gives up for another. That two lead for a while harms nobody: an
// attempt needs all nodes, and each has one leader.
//
// Times are nanoseconds of the agent's clock. Threads: one at a time. Errors: none; places are from
// 0 to the number of them, less 1.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "nodes/words.h"

namespace lockstep::nodes {

// What a leader tells whoever looks for one.
struct Lead {
  int place = 0;
  Attempt attempt = 0;  // the highest that it knows of
  bool active = false;  // it has all nodes, a group that runs, or the run's end
  friend bool operator==(const Lead&, const Lead&) = default;
};

// Of two that lead at different places this one goes on: that is active; else that knows of the
// higher attempt; else at the earlier place.
bool goes_on(const Lead& one, const Lead& other);

class Succession {
 public:
  struct Times {
    std::uint64_t limit = 0;   // L
    std::uint64_t redial = 0;  // Rules::redial
  };
  // `own`: where this agent may lead; -1: nowhere.
  Succession(int places, int own, Times times, std::uint64_t now);

  // It has none yet: this one turns out to be of its machine.
  void may_lead_at(int place) { own_ = own_ < 0 ? place : own_; }
  int own() const { return own_; }

  // The place was dialled: its machine says that no leader of this run is there; nobody answers;
  // that one leads.
  void found_nobody(int place, std::uint64_t now);
  void found_silence(int place);
  void found(const Lead& lead, std::uint64_t now);

  // This agent looks at all places but that at which it leads from now on, or no more; what was
  // found is forgotten. `without_since`: since when it has no leader.
  void look(std::uint64_t without_since, std::uint64_t now);
  void look_no_more() { looks_since_.reset(); }
  bool looks() const { return looks_since_.has_value(); }

  // It is this one's turn: nobody leads anywhere, as far as it can be seen.
  bool may_lead(std::uint64_t now) const;
  // Where somebody leads whom this agent is to follow instead of the one at `target`. `is_led`:
  // that one has been heard lately. None: it stays.
  std::optional<int> whom_to_follow(int target, bool is_led) const;
  // This agent leads, and is to give up for another.
  bool yields(const Lead& own) const;

 private:
  struct Place {
    std::optional<std::uint64_t> nobody_since;
    std::optional<Lead> lead;
    std::uint64_t led_at = 0;  // when that was found last
  };
  Place& at(int place) { return places_[static_cast<std::size_t>(place)]; }
  bool is_free(int place, std::uint64_t now) const;
  std::uint64_t turn() const;  // beyond the first place's

  std::vector<Place> places_;
  int own_;
  const Times times_;
  std::optional<std::uint64_t> looks_since_;
  std::uint64_t without_since_;
};

}  // namespace lockstep::nodes

// How often a run may be mended: replacements (rungs 1 and 2) and restarts of the group (rung 3).
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <deque>

namespace lockstep::coord {

// --max-replacements: one charge per incident; a charge is given back once `give_back_after`
// further transactions are committed.
class ReplacementBudget {
 public:
  ReplacementBudget(int most, std::uint64_t give_back_after)
      : most_(most), give_back_after_(give_back_after) {}

  // False: nothing left, and nothing is charged.
  bool charge(std::uint64_t committed);
  int left(std::uint64_t committed);

 private:
  int most_;
  std::uint64_t give_back_after_;
  std::deque<std::uint64_t> charges_;  // transactions committed when each was made
};

// --max-restarts, and the end of a run that restarts without getting any further.
class RestartBudget {
 public:
  enum class Verdict { kAllowed, kSpent, kNoProgress };

  RestartBudget(int most, int most_without_progress)
      : most_(most), most_without_progress_(most_without_progress) {}

  // `furthest`: transactions committed at best since the run's start.
  Verdict charge(std::uint64_t furthest);
  bool spent() const { return used_ >= most_; }
  int used() const { return used_; }
  int most() const { return most_; }

 private:
  int most_, most_without_progress_;
  int used_ = 0, without_progress_ = 0;
  std::uint64_t furthest_ = 0;
};

}  // namespace lockstep::coord

// How often a run may be mended: replacements (rungs 1 and 2) and restarts of the group (rung 3).
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <utility>

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

  // Transactions committed when each was made.
  const std::deque<std::uint64_t>& charges() const { return charges_; }
  void go_on(std::deque<std::uint64_t> charges) { charges_ = std::move(charges); }

 private:
  int most_;
  std::uint64_t give_back_after_;
  std::deque<std::uint64_t> charges_;
};

// --max-restarts, and the end of a run that restarts without getting any further. What a program
// without transactions gets done nobody sees: there each restart counts as progress.
class RestartBudget {
 public:
  enum class Verdict { kAllowed, kSpent, kNoProgress, kSameError };
  // How far a run of transactions had come when its group ended.
  struct Place {
    std::uint64_t furthest = 0;  // transactions committed at best since the run's start
    std::uint64_t txn = 0;       // the one that the group was in
    std::string error;           // of the workers' own doing; empty: it came from outside
  };
  // So far.
  struct Used {
    int restarts = 0, without_progress = 0;
    std::uint64_t furthest = 0;
    std::set<std::pair<std::uint64_t, std::string>> errors = {};  // cut at kMostError
  };
  static constexpr std::size_t kMostError = 256;

  RestartBudget(int most, int most_without_progress)
      : most_(most), most_without_progress_(most_without_progress) {}

  // Nothing: of a program without transactions. The same error in the same transaction, twice in
  // the run's life, would come again.
  Verdict charge(const std::optional<Place>& place);
  // What is said of an allowed restart, and of a spent budget. `from`: " from a checkpoint".
  std::string announcement() const;
  std::string refusal(const std::string& from = "") const;
  bool spent() const { return used_.restarts >= most_; }
  int used() const { return used_.restarts; }
  int most() const { return most_; }

  const Used& all_used() const { return used_; }
  void go_on(Used used) { used_ = std::move(used); }

 private:
  int most_, most_without_progress_;
  Used used_;
};

}  // namespace lockstep::coord

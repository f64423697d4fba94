// The figures of all epochs so far, for tutorials' files that list them (Trainer::keep_history). A
// text of the train state, as it grows; with times in it, and so in no hash.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/state.h"
#include "lockstep/trainer.h"

namespace lockstep::training {

class EpochHistory {
 public:
  // Epochs, of at most 75 bytes each: a state's texts have 1 MiB, and so has a manifest's.
  static constexpr std::int64_t kMost = 13'000;

  void add(const EpochFigures& figures) { ends_.push_back(figures); }
  // Of the epoch that the time limit broke: behind the others, until the run goes on after all.
  void add_broken(const EpochFigures& figures) { broken_ = figures; }
  void forget_broken() { broken_.reset(); }
  // Of what was added last: its files are written now.
  void ended_at(double run_seconds);

  std::vector<EpochFigures> all() const;
  TrainState::Text text();

 private:
  std::string save() const;
  Status load(const std::string& json);

  std::vector<EpochFigures> ends_;
  std::optional<EpochFigures> broken_;
};

}  // namespace lockstep::training

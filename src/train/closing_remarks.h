// What a run says at its end of what it has not made: a best model, files, updates, samples.
// Threads: functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "train/epoch_book.h"
#include "train/hooks.h"
#include "train/run_spec.h"

namespace lockstep::training {

struct EndOfRun {
  const RunSpec& spec;
  const Hooks& hooks;
  const TrainState& state;
  const EpochBook* book;         // null: epochs have no end of their own
  std::int64_t steps = 0;        // of the run
  std::uint64_t idle_steps = 0;  // the last ones in a row that changed nothing
  std::int64_t left_out = 0;     // damaged samples that were met; for runs without a book
};

// One line each, none where all is as it should be.
std::vector<std::string> closing_remarks(const EndOfRun& end);

}  // namespace lockstep::training

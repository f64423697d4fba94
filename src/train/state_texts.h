// A checkpoint's state.json: one JSON object with the train state's texts by name, and beside them
// what the run keeps for itself.
//
// Threads: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/state.h"
#include "lockstep/status.h"

namespace lockstep::training {

struct RunNotes {
  bool ended_early = false;  // the program ended it here (Share::end_run, Trainer::stop_when)
  // The time limit's stop is complete, its broken epoch evaluated. The checkpoint's place is that
  // of the step which a longer limit goes on with.
  bool stopped = false;
  std::uint64_t ran_ns = 0;      // run time
  std::uint64_t idle_steps = 0;  // in a row, up to here, that changed nothing
  int workers = 0;               // world_size(), as the program was told it; 0: not known
  // Of several: which ones the step behind the checkpoint was given, by update, each a list of
  // numbers in the state; empty: not known.
  std::vector<std::vector<std::size_t>> optimizers = {};
};

// As they are now, in the state's order.
std::vector<std::string> save_texts(const TrainState& state);
std::string texts_json(const TrainState& state, const std::vector<std::string>& saved,
                       const RunNotes& notes);

// Into the state. kBadData for a text that the state needs and the file lacks; and the texts' own.
Result<RunNotes> load_texts(const TrainState& state, const std::string& text);

}  // namespace lockstep::training

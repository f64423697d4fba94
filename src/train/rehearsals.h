// Which shares are computed twice (transaction/participant_rehearsal.cpp).
//
// All of the first step in which a share takes part, and all but one of those that --rehearse N
// adds behind it, of each of a step's updates for itself. How many of them are left is counted by
// all workers alike, from what is committed, and goes to newcomers and into checkpoints as a text
// of the state: a step in which no share takes part uses none up. And one of each early step: what
// a closure keeps from step to step (a pool of each virtual worker) is empty in the first steps,
// and shows where another worker computes the share; of each of its updates another one, which
// shows what it keeps from update to update. Beside it virtual worker 0's, if the model has
// buffers: those that its share leaves are the state's, and no other share's are.
//
// And which updates of a newcomer have not been compared yet (participant_newcomer.cpp there).
//
// Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/run_options.h"
#include "lockstep/state.h"
#include "train/plan.h"

namespace lockstep::training {

class Rehearsals {
 public:
  // A new run's: RunOptions::rehearse, or one if equal bits are promised.
  Rehearsals(const RunOptions& options, std::int64_t updates);

  // For TrainState::add(), which may outlive this; empty: none is left.
  TrainState::Text text() const;
  // The state is that of this start's first step. What `options` ask for is of each start.
  void begin(const RunOptions& options);

  // By virtual worker, of so many: whether that share is. `buffers`: the model has some.
  std::vector<bool> due(const Position& position, std::uint32_t virtual_workers,
                        bool buffers = false) const;
  // A share has taken part in it.
  void count(std::int64_t update);

  // Equal bits, whoever computes what; and that is to be compared.
  bool promised() const { return promised_; }
  // This worker has come in: of each update one share is to be compared with an older member's.
  void come_in() { unproved_.assign(unproved_.size(), promised_); }
  bool must_prove(std::int64_t update) const { return unproved_[static_cast<std::size_t>(update)]; }
  void proved(std::int64_t update) { unproved_[static_cast<std::size_t>(update)] = false; }

 private:
  using Left = std::vector<std::int64_t>;  // by update
  std::int64_t asked_;
  std::shared_ptr<Left> left_;
  bool promised_;
  std::vector<bool> unproved_;  // by update
};

}  // namespace lockstep::training

// Whether a share's closure has left the train state as it was, buffers of the model apart. What it
// writes there (an optimizer of PyTorch's own, a target network, an Embedding's max_norm) only
// those workers would have that compute the share.
//
// Ownership: refers to the state. Threads: one.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/state.h"

namespace lockstep::training {

class StateKept {
 public:
  // By the tensors' version counters, 5 ns each; with `hashes`, TrainState::hashes() of now: by
  // these, too, and by the texts. They know of what was written by way of Tensor::data(), which has
  // a counter of its own, and of what was put back (averaged weights for a while) or written beside
  // a view, which is no change. `hashes` outlive this.
  StateKept(const TrainState& state, std::span<const std::uint64_t> hashes);
  // What is another than at its construction, in words; empty: nothing.
  std::string changed() const;
  // By content, and nothing is changed: whether something was written all the same.
  bool put_back() const;

 private:
  const TrainState& state_;
  std::vector<std::uint32_t> versions_;
  std::span<const std::uint64_t> hashes_;  // empty: not compared
};

}  // namespace lockstep::training

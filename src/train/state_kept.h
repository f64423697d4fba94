// Whether a share's closure has left the train state as it was, buffers of the model apart. What it
// writes there (an optimizer of PyTorch's own, a target network, an Embedding's max_norm) only
// those workers would have that compute the share.
//
// Ownership: refers to the state. Threads: one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/state.h"

namespace lockstep::training {

class StateKept {
 public:
  // By the tensors' version counters, 5 ns each; `by_content`: by hashes too, as what is written
  // by way of Tensor::data() has a counter of its own, and by the texts.
  StateKept(const TrainState& state, bool by_content);
  // What is another than at its construction, in words; empty: nothing.
  std::string changed() const;

 private:
  const TrainState& state_;
  std::vector<std::uint32_t> versions_;
  std::vector<std::uint64_t> hashes_;  // empty: not compared
  std::vector<std::string> texts_;     // "": one that may change
};

}  // namespace lockstep::training

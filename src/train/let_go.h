// Tensors of the state that the program had when its run began and has no more, so that the state
// alone holds them: `place = torch::cat(...)` gives the program another tensor, which no checkpoint
// and no newcomer has, and nothing tells the two apart but who holds them. What the program gave
// away at the start is none of these.
//
// Ownership: refers to the state. Threads: one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/state.h"

namespace lockstep::training {

class LetGo {
 public:
  // Before the program's loop; the state has all that it will have.
  explicit LetGo(const TrainState& state);
  // One that was let go of since, in words for people, each once; nullopt: none. 5 ns for each of
  // the state's tensors beside those of its modules.
  std::optional<std::string> next();

 private:
  const TrainState& state_;
  std::vector<std::size_t> held_;  // in other_tensors(): by somebody else, too
};

}  // namespace lockstep::training

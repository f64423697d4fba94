// What the program held of its train state when its run began and holds no more, so that the state
// alone does: `place = torch::cat(...)` gives the program another tensor, which no checkpoint and
// no newcomer has, and nothing tells the two apart but who holds them. So it is with a module's
// member that is assigned anew (`net->weight = ...`, `net->fc = torch::nn::Linear(...)`): what the
// module has registered is the earlier one. What the program gave away at the start is none of
// these.
//
// Ownership: refers to the state; its modules are held weakly. Threads: one.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/state.h"

namespace lockstep::training {

class LetGo {
 public:
  // Before the library holds more of the state's modules than their optimizers do.
  explicit LetGo(const TrainState& state);
  // Nothing of the program has run since; the library has all that it will hold, and the state all
  // that it will have.
  void begin();
  // What was let go of since, in words for people, each once; nullopt: nothing. 5 ns for each of
  // the state's tensors: each step asks.
  std::optional<std::string> next();

 private:
  // Registered in a module of the state, and held by the program too.
  template <class Part>
  struct Held {
    std::string name;
    Part part;
    std::size_t others;  // that held it at the start, the program's apart
  };
  using Module = std::weak_ptr<torch::nn::Module>;
  void add(const std::string& name, const torch::nn::Module& module);

  const TrainState& state_;
  std::vector<std::size_t> held_;          // in other_tensors(): by somebody else, too
  std::vector<Held<at::Tensor>> tensors_;  // of modules; one more that holds them
  std::vector<Held<Module>> modules_;      // in modules
};

}  // namespace lockstep::training

// Which modules of the state train (train(), eval()), as each share's worker has them when its
// run() begins: dropout and batch norm compute something else in eval(), so a worker that an
// evaluation has left in it computes other shares than the rest.
//
// Ownership: refers to the state's modules. Threads: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coord/board.h"
#include "lockstep/state.h"
#include "transaction/participant.h"

namespace lockstep::training {

class TrainingModes {
 public:
  explicit TrainingModes(const TrainState& state);

  // As they are now; and as words, a bit each.
  void read();
  std::size_t words() const { return modes_.size(); }
  void write(std::span<coord::Word> words) const;
  // "'net'", for a bit's number.
  std::string module_in_words(std::size_t number) const;
  // Of the step under way, whose records are all marked: the first module that trains in one worker
  // and does not in another, in words for people. nullopt: none.
  std::optional<std::string> difference(const transaction::Participant& participant,
                                        std::uint32_t virtual_workers) const;

 private:
  using Module = std::shared_ptr<const torch::nn::Module>;
  void add(const std::string& name, const Module& module);
  std::vector<std::pair<std::string, Module>> modules_;
  std::vector<std::uint64_t> modes_;
};

}  // namespace lockstep::training

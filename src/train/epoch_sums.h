// What shares have added up by name (Share::add()) in the epoch under way, or in the one that ended
// last. Tensors of the train state, so that newcomers and resumed runs have it.
// Threads: one.
#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/named_tensors.h"
#include "lockstep/sums.h"

namespace lockstep::training {

class EpochSums {
 public:
  EpochSums();
  NamedTensors state() const { return {{"names", names_}, {"sums", sums_}, {"counts", counts_}}; }
  Sums all() const;
  // With those of one more step; `first`: it is the epoch's.
  Sums with(const Sums& step, bool first) const;
  // transaction::kMostSums names at most.
  void set(const Sums& sums);

 private:
  at::Tensor
      names_;  // uint8, [kMostSums, kMostSumName + 1]: bytes, and then 0; all 0 behind the last
  at::Tensor sums_, counts_;  // [kMostSums], fp64 and int64
};

}  // namespace lockstep::training

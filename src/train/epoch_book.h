// What a run keeps about its epochs: the sums of the one under way, the figures of the last that
// ended, the best so far. Part of the train state, so that a newcomer and a resumed run have it.
// Arithmetic: fp64, added in order of steps and, within a step, of virtual workers.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/named_tensors.h"
#include "lockstep/trainer.h"

namespace lockstep::train {

class EpochBook {
 public:
  EpochBook();
  NamedTensors state() const {
    return {{"figures", figures_}, {"train_sums", train_sums_}, {"train_counts", train_counts_}};
  }

  // Of a run that begins elsewhere, before all else.
  void begin_at(const StartPoint& start);
  // Of one share, step by step, in order of virtual workers; `first`: the epoch's first step.
  void add_share(std::uint32_t v, const Score& share, bool first);
  // At the epoch's end, before any schedule: `score` is that of the evaluation, count 0 without
  // one; `rate` the epoch's.
  void end(std::int64_t epoch, const Score& score, double rate, BestOf best_of);
  // Of the epoch that ended last; epochs and global_step are left to the caller.
  EpochEnd last() const;
  // Each one's mean over its samples, of the epoch whose shares were added last.
  std::vector<double> train_losses(std::uint32_t virtual_workers) const;

 private:
  enum Figure {
    kTrainSum,
    kTrainCorrect,
    kTrainCount,
    kEpoch,
    kTrain,
    kTrainAccuracy,
    kLossSum,
    kCorrect,
    kCount,
    kRate,
    kBest,
    kBestEpoch,
    kBestBefore,
    kFigures
  };
  double& at(Figure figure) const;
  at::Tensor figures_;  // [kFigures] float64
  // By virtual worker, [kMaxVirtualWorkers] float64: a run may go on with another V.
  at::Tensor train_sums_, train_counts_;
};

}  // namespace lockstep::train

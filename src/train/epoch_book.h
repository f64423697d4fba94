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
#include "train/best_by.h"
#include "train/epoch_history.h"
#include "train/epoch_sums.h"

namespace lockstep::training {

class EpochBook {
 public:
  EpochBook();
  NamedTensors state() const {
    return {{"figures", figures_}, {"train_sums", train_sums_}, {"train_counts", train_counts_}};
  }

  // Of a run whose shares may add sums: another part.
  NamedTensors sums_state() const { return sums_.state(); }

  // Of a run that begins elsewhere, before all else.
  void begin_at(const StartPoint& start);
  // Of one share, step by step, in order of virtual workers; `first`: the epoch's first step;
  // `replaced`: of its samples, those that stand in for damaged ones.
  void add_share(std::uint32_t v, const Score& share, bool first, std::int64_t replaced = 0);
  // The rate of each update, and of the last one so far.
  void trained_at(double rate) { at(kRate) = rate; }
  double rate() const { return get(kRate); }
  // What shares have added up by name in one step; `first`: the epoch's first.
  void add_sums(const Sums& step, bool first);
  // kUsage where that would be too many names in an epoch. `where` begins the message.
  Status check_sums(const std::string& where, const Sums& step, bool first) const;
  // At the epoch's end, before any schedule: `score` is that of the evaluation, count 0 without
  // one; `rate` the epoch's, `run_seconds` for the history.
  void end(std::int64_t epoch, const Score& score, double rate, const BestBy& best_by,
           double run_seconds = 0);
  // Of an epoch that the time limit broke: told as any other, and forgotten with the next step, if
  // the run goes on after all.
  void end_broken(std::int64_t epoch, const Score& score, double rate, const BestBy& best_by,
                  double run_seconds = 0);
  // Its files are written.
  void ended_at(double run_seconds) { history_.ended_at(run_seconds); }
  // What became of the program's files of that epoch. Where some could not be written, the run is
  // not all that it should be until a later epoch's are.
  enum class Files { kNone, kWritten, kLost };
  void exported(std::int64_t epoch, Files files);
  std::int64_t lost_exports() const { return static_cast<std::int64_t>(get(kLost)); }  // epochs
  // The last of them; -1: something was written since.
  std::int64_t last_lost() const { return static_cast<std::int64_t>(get(kLastLost)); }
  // From then on it is kept; the state's text of it.
  TrainState::Text keep_history();
  // kUsage where the history has no room for so many.
  Status check_epochs(std::int64_t epochs) const;
  // Of the epoch that ended last; epochs and global_step are left to the caller.
  EpochEnd last() const;
  // Of the newest whole one, whatever was broken since; its sums are those of the newest steps.
  EpochEnd last_whole() const { return told(kWhole); }
  std::vector<EpochFigures> history() const { return history_.all(); }
  // Each one's mean over its samples, of the epoch whose shares were added last.
  std::vector<double> train_losses(std::uint32_t virtual_workers) const;

 private:
  enum Figure {
    kTrainSum,
    kTrainCorrect,
    kTrainCount,
    kTrainReplaced,  // of the epoch under way, or of the one that ended last
    kEpoch,
    kTrain,
    kTrainAccuracy,
    kLossSum,
    kCorrect,
    kCount,
    kLeftOut,
    kRate,
    kBest,
    kBestEpoch,
    kBestBefore,
    kLost,  // of the epochs alone
    kLastLost,
    kFigures
  };
  // Of the epochs; and of the one that the time limit broke, zeros where there is none.
  using Row = std::int64_t;
  static constexpr Row kWhole = 0, kBroken = 1;
  double& at(Figure figure, Row row = kWhole);
  double get(Figure figure, Row row = kWhole) const;
  void close(Row row, std::int64_t epoch, const Score& score, double rate, const BestBy& best_by);
  bool was_broken() const;
  EpochEnd told(Row row) const;
  at::Tensor figures_;  // [2, kFigures] float64
  EpochHistory history_;
  EpochSums sums_;
  bool keeps_history_ = false;
  // By virtual worker, [kMaxVirtualWorkers] float64: a run may go on with another V.
  at::Tensor train_sums_, train_counts_;
};

}  // namespace lockstep::training

// A whole step's share records, as all workers read them at its commit: whether they fit together,
// what they say of the update, and what is said about them.
//
// Ownership: a view, for one call. Errors: see check(). Threads: one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "coord/board.h"
#include "train/epoch_book.h"
#include "train/given_optimizers.h"
#include "train/run_spec.h"
#include "transaction/participant.h"
#include "transaction/program.h"

namespace lockstep::training {

class StepRecords {
 public:
  StepRecords(const RunSpec& spec, const TrainState& state, Txn txn, coord::Board board)
      : spec_(spec), state_(state), txn_(txn), board_(board), position_(spec.plan.at(txn)) {}

  // Each worker updates its own state, with its own loop's optimizer and rate: kUsage where rates,
  // or the states that are compared, differ. `participant`: of the step under way.
  Status check(transaction::Participant& participant) const;
  // The same of the optimizers, of two shares whose records are there.
  Status check_optimizers(int u, int v) const;
  // Which the step updates, a bit each: a newcomer has not seen the loop's choice.
  OptimizerList optimizers() const { return optimizers_of(record(0)); }
  // Whether a share takes part in the update at all.
  bool takes_part() const { return reported() != nullptr; }
  // Virtual worker 0's, or that of the first that takes part; NaN: none does.
  double loss() const;
  // Of the samples of all shares; NaN without any.
  double mean_loss() const;
  // Of its optimizers' groups, in order: before the update's schedules they are its own.
  std::vector<double> rates() const;
  // A share has asked to end the run with this step (Share::end_run).
  bool end_run() const;
  // `counts`: false for a step that is left out.
  void add_to(EpochBook& book, bool counts) const;
  std::uint64_t epoch_began_ns() const { return record(0).epoch_began_ns; }
  // The first virtual worker's loss that is not finite, in words.
  std::optional<std::string> loss_not_finite() const;
  // Such losses stay, and the first of a stretch is enough of a remark. Of steps of one update;
  // where the step before is not known (the group has just begun) it is made again.
  bool told_before() const;
  // What the run knows of the update besides.
  struct Committed {
    const std::optional<std::string>& not_finite;  // what of it is not, in words
    bool left_out;                                 // for that, or as no share takes part
    bool told_before;                              // of a loss that is not, in the step before
    const std::vector<double>& rates;              // of the update
    const UpdateResult& result;                    // of it
    bool ends;                                     // the run, with the step
    // Of the step's updates, behind its last.
    std::vector<std::optional<double>> losses;
  };
  // `book`: of a run whose epochs have ends; else null.
  transaction::Lines lines(const Hooks& hooks, const EpochBook* book,
                           const Committed& committed) const;

 private:
  const coord::ShareRecord& record(int v) const { return board_.record(txn_, VirtualWorker(v)); }
  const coord::ShareRecord* reported() const;
  std::uint64_t samples() const;  // that took part
  std::string metrics(const Committed& committed) const;
  std::string step_lines(const Hooks& hooks, const EpochBook* book,
                         const Committed& committed) const;
  std::string rates_differ(const OptimizerList& optimizers, int v) const;
  std::string first_difference(transaction::Participant& participant, int v) const;
  std::int64_t replaced(int v) const;  // samples, that cannot be decoded
  StepEnd step_end(const EpochBook* book, const Sums& sums) const;
  std::optional<VirtualWorker> not_finite(Txn txn) const;

  const RunSpec& spec_;
  const TrainState& state_;
  const Txn txn_;
  const coord::Board board_;
  const Position position_;
};

}  // namespace lockstep::training

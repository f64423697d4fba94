// A run between steps: evaluations; and at epochs' ends what follows from them for schedules and
// the best, lines and files. Parts of the run's program (transaction/program.h), for all
// transactions that are no steps.
//
// Ownership: refers to all that it is given. Errors: those of the program's hooks. Threads: one.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "comm/exchange.h"
#include "train/epoch_book.h"
#include "train/run_spec.h"
#include "transaction/program.h"

namespace lockstep::training {

// What checkpoints have to do with an epoch's files.
struct FileGuard {
  std::function<Status()> secure;     // before the program's: they may write over its beginnings
  std::function<Status()> keep_best;  // after them: this epoch is the best
};

class EpochEnds {
 public:
  // `book` is in the train state; null: epochs have no end of their own.
  EpochEnds(const RunSpec& spec, const Hooks& hooks, EpochBook* book)
      : spec_(spec), hooks_(hooks), book_(book) {}

  EpochBook* book() const { return book_; }
  std::uint32_t items(Txn txn) const;
  std::uint32_t most_items() const;
  // When the epoch of this step began, as share records have it: the word of virtual worker 0's is
  // taken up at each step's commit, so that newcomers know it, too. `ran_ns`: the run's time now.
  std::uint64_t began_ns(Txn txn, std::uint64_t ran_ns) const;
  void begun(std::uint64_t at_ns) { began_ns_ = at_ns; }
  // One batch of the evaluation; all of the cell but its times.
  Status evaluate(Txn txn, std::uint32_t index, comm::EvalCell& cell) const;
  // The program's files, and the best checkpoint. cell.count: whether the program wrote something;
  // cell.correct: 1 if it could not.
  Status export_files(Txn txn, const FileGuard& guard, comm::EvalCell& cell) const;
  // The cell's times: its epoch's so far, and the run's.
  void tell_time(Txn txn, std::uint64_t ran_ns, comm::EvalCell& cell) const;
  // At the run's end: files that could not be written are tried once more if they are the last
  // epoch's. kDisk: they are still missing, and none of a later epoch are there.
  Status write_what_is_missing(Txn end) const;
  // At the commit: the book, then the schedules.
  Status end(Txn txn, comm::Exchange& exchange);
  // The program ends the run with this epoch. Asked at its last commit: no transaction follows, so
  // nobody can come who has not been asked.
  bool ends_run(Txn txn) const;
  transaction::Lines lines(Txn txn, comm::Exchange& exchange) const;

  bool evaluates(Txn txn) const;  // batches of the test set

 private:
  Result<bool> call_exports(const EpochEnd& end) const;
  Score score_of(Txn txn, comm::Exchange& exchange) const;
  Status check(const Score& score) const;
  Status check_best(const Position& position) const;
  EpochEnd epoch_end(Txn txn) const;
  EpochEnd told_end(Txn txn) const;
  transaction::Lines evaluation_lines(Txn txn, const Score& score) const;
  transaction::Lines end_lines(Txn txn) const;
  std::string last_line(Txn txn) const;
  transaction::Lines export_lines(Txn txn, bool written) const;

  const RunSpec& spec_;
  const Hooks& hooks_;
  EpochBook* const book_;
  // For lines, and so no part of the state: another run has others. 0: not known.
  std::uint64_t began_ns_ = 0;  // of the run's time: another worker may have told it
  double seconds_ = 0;          // of the epoch that ended last
};

}  // namespace lockstep::training

// What a run computes, as its participant sees it: a function of (state, transaction, item) and
// nothing else, so that anyone may compute any item, again and again, and get the same bits.
//
// Errors: any Status ends this worker's part in the run. Threads: the participant's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "comm/exchange.h"
#include "coord/board.h"
#include "lockstep/status.h"
#include "transaction/share_notes.h"

namespace lockstep::transaction {

// Lines that go with a committed transaction; equal in all workers. Each line ends with its
// newline.
struct Lines {
  std::string console;
  std::string metrics;
};

class Program {
 public:
  virtual ~Program() = default;

  virtual Txn end() const = 0;                 // number of transactions
  virtual bool is_step(Txn txn) const = 0;     // otherwise an evaluation or an epoch's end
  virtual bool ends_epoch(Txn txn) const = 0;  // or its files
  // Whether members may come and go, and the run may stop, at its start: not within a step of
  // several updates, each of which is a transaction.
  virtual bool is_border(Txn txn) const = 0;
  virtual std::uint32_t items(Txn txn) const = 0;  // V for a step; batches of an evaluation
  virtual std::int64_t epoch(Txn txn) const = 0;
  virtual std::int64_t global_step(Txn txn) const = 0;  // steps before it
  virtual std::string in_words(Txn txn) const = 0;      // a step, for messages: "step 5"
  virtual std::int64_t epoch_step(Txn txn) const = 0;   // the same, of its epoch
  // The time limit is reached, and this transaction is the last that begins: after so many
  // optimizer steps the run ends. 0: it has ended by then anyway.
  virtual std::uint64_t steps_if_last(Txn txn) const = 0;
  // From the table: the run ends after so many steps. Again and again, with the same number.
  virtual void stop_after(std::uint64_t steps) = 0;

  // Of a step, by virtual worker: whether its share is computed twice. All members say the same.
  virtual std::vector<bool> rehearsed(Txn txn) const = 0;
  // Of a step: where somebody has come or gone since this start, a share of one of them is computed
  // twice.
  virtual bool looks_again(Txn txn) const = 0;
  // Of an evaluation: whether it scores batches.
  virtual bool evaluates(Txn txn) const = 0;
  // Once all records of a step are marked: what about them casts doubt on them, in words for people
  // (workers whose modules are in other modes), the same for all members. Then each share is
  // computed twice before the step is whole. Empty: nothing.
  virtual std::string doubt() const = 0;
  // A module whose mode is noted (ShareNotes::training()), by its bit's number: "'net'".
  virtual std::string module_in_words(std::size_t number) const = 0;
  // Equal shares, whoever computes them; and that is to be compared.
  virtual bool promised() const = 0;
  // Whether this worker has come in, and what it computes in this step counts only once an older
  // one has come to the same; and that one has, of a share that takes part.
  virtual bool must_prove(Txn txn) const = 0;
  virtual void proved(Txn txn) = 0;

  // One share of a step: forward and backward of virtual worker v.
  virtual Status compute_share(Txn txn, VirtualWorker v, ShareOutput& output) = 0;
  // One batch of an evaluation, or the files of an epoch's end; fills the cell, all but its mark.
  virtual Status compute_batch(Txn txn, std::uint32_t batch, comm::EvalCell& cell) = 0;
  // While others are waited for, again and again: an error if the records of a step that are marked
  // do not fit together. Workers that have been given different optimizers would wait for each
  // other's sums for ever.
  virtual Status check_marked(Txn txn, coord::Board board) = 0;
  // Once a step is whole, before the update: an error if the workers' records do not fit together,
  // or if the step has to be the last.
  virtual Status check(Txn txn, coord::Board board) = 0;
  // The update of the state, from gradients that are set. False: it is left out, and its buffers
  // and rows with it.
  virtual bool update(Txn txn, coord::Board board) = 0;
  // The update was not left out, and its buffers and rows are those of the state; gradients are
  // still set. Once in each worker, also in one that comes in with this transaction.
  virtual Status updated(Txn txn) = 0;
  // An evaluation or an epoch's end is whole: what follows from it for the state. An error, in all
  // workers alike, if nothing can.
  virtual Status end_epoch(Txn txn, comm::Exchange& exchange) = 0;
  // What to say about a transaction that this worker has committed.
  virtual Lines lines(Txn txn, coord::Board board, comm::Exchange& exchange) const = 0;
};

}  // namespace lockstep::transaction

// Turns committed transactions on the board into lines: standard output, metrics.jsonl and
// ledger.jsonl in the run directory, each transaction once, in order. Used by the agent, and by a
// worker that runs alone.
//
//   ledger.jsonl   one line per optimizer step, with the ids that the loader delivered:
//                  {"txn":T,"step":S,"epoch":E,"ids":[[ids of v = 0],[ids of v = 1],...]}, and
//                  where samples of the order could not be decoded "replaced":[[I,J],...]: J was
//                  delivered for I
//   metrics.jsonl  the lines that the workers' CommitLines carry; they start with {"txn":T, too
//   times.jsonl    when that was (times.h), which the run does not need
//
// Steps that are done again, behind a checkpoint, are compared with what metrics.jsonl had of them
// (rundir/redone.h). The first difference is told, and that line gets the other one as "before". It
// is an error in what this launcher has recorded before, as nobody has changed the program since;
// else a warning.
//
// Errors: kUsage for such a difference; kDisk; sticky: later calls return them (but not that the
// directory is away, base/places.h: what was written is in it, and it may be put back). Threads:
// one at a time; but sync() may go on in a second one beside everything else.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/env.h"
#include "coord/board.h"

namespace lockstep::coord {

class Recorder {
 public:
  // The newest recorded step, and what has been recorded since open().
  struct Recorded {
    std::uint64_t steps = 0;     // optimizer steps of the run; 0: none since open()
    double loss = std::nan("");  // mean over that step's samples
    std::uint64_t samples = 0;
  };

  // What this launcher has recorded before rung 3: transactions from .. to - 1. Their lines are not
  // given to `console` once more.
  struct Here {
    Txn from, to;
    bool has(Txn txn) const { return txn >= from && txn < to; }
  };

  // Cuts the files at `next` (a resume from a checkpoint rewrites what came after it), makes them
  // if absent, and goes on from there.
  static Result<std::unique_ptr<Recorder>> open(Env& env, const std::string& run_dir, Board board,
                                                Txn next,
                                                std::function<void(std::string_view)> console,
                                                Here here = {});
  // Of what the files should have below `next`, and have not. Reads them whole: for a second
  // thread, beside everything else.
  static void warn_of_missing(Env& env, const std::string& run_dir, const BoardPlan& plan,
                              Txn next);
  virtual ~Recorder() = default;

  // Records every transaction that some slot in use has applied. Stores header().recorded_txn and
  // rings workers that wait for it.
  virtual Status pump() = 0;
  // What was recorded when it began is on storage, and found under the run directory's name.
  virtual Status sync() = 0;
  virtual bool broken() const = 0;  // by a sticky error. Any thread
  virtual Txn next() const = 0;     // all below are recorded
  virtual const Recorded& recorded() const = 0;
};

}  // namespace lockstep::coord

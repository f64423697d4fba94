// What a host that comes back lacks of ledger.jsonl and metrics.jsonl: lines that others have
// written meanwhile (link/record_words.h). They are copied by whole transactions, as one may give a
// piece and another one the next, and hosts' files need not be the same byte for byte: some may
// lack lines.
//
// Ownership: of both files, open. Threads: one at a time. Errors: kDisk, kBadData.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "base/env.h"
#include "link/record_words.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

// The answer to a question, from a run directory that has all lines below `recorded`; what is
// behind them may be another run's.
Result<link::RecordsPiece> read_records(Env& env, const std::string& run_dir, Txn recorded,
                                        const link::WantRecords& want);

class MissedRecords {
 public:
  // Cuts both files at `from`: what is behind that comes. `who`: this host.
  static Result<MissedRecords> open(Env& env, const std::string& run_dir, coord::Stay who,
                                    Txn from);

  // To be asked now, or again.
  link::WantRecords next() const;
  // False: it answers no question that is open.
  Result<bool> take(const link::RecordsPiece& piece);
  // Both files have all lines below it.
  Txn upto() const { return std::min(files_[0].upto, files_[1].upto); }

 private:
  struct Copy {
    std::unique_ptr<File> file;
    Txn from;                 // the next lines to come are its, or a later one's,
    std::uint64_t bytes = 0;  // behind these: a piece has not had room for all of it
    Txn upto;
  };
  explicit MissedRecords(coord::Stay who) : who_(who) {}

  coord::Stay who_;
  std::array<Copy, 2> files_;  // by link::RecordsOf
};

}  // namespace lockstep::launcher

// A file of records: lines that start with their transaction, {"txn":T,"step":S, in order.
//
// Errors: kBadData for a line that does not start so, kDisk. Threads: one.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/env.h"
#include "base/ids.h"
#include "lockstep/status.h"

namespace lockstep::rundir {

inline constexpr std::string_view kRecordStart = "{\"txn\":";

struct RecordFile {
  std::unique_ptr<File> file;
  std::string cut;  // what was cut off, as far as it is wanted
};

// Cuts the file at `next` (a resume from a checkpoint rewrites what came after it), makes it if
// absent, and opens it at its end. Of what is cut off the first whole lines are kept, `most_cut`
// bytes at most. `first`: the run's. Reads little of what is kept, however much that is.
Result<RecordFile> open_records(Env& env, const std::string& path, Txn first, Txn next,
                                std::uint64_t most_cut = 0);

// Lines before `next` that should be there, from the run's `first` transaction on, and are not are
// warned of: the run does not need them. Between two steps (the line's "step" is one more,
// or any number once V is another) up to `holes` transactions may lack theirs. Reads the whole
// file; others may write behind `next` meanwhile.
Status warn_of_missing(Env& env, const std::string& path, Txn first, Txn next, std::uint32_t holes);

// Where the first line of `txn` or of a later one begins, in bytes; none: where whole lines end.
// 0 without a file. Reads little, however long the file is.
Result<std::uint64_t> place_of_record(Env& env, const std::string& path, Txn txn);

}  // namespace lockstep::rundir

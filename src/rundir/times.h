// times.jsonl: when what was committed, for reports. The run itself never needs it.
//
//   {"txn":T,"run_s":S,"workers":W}   at S seconds of run time all transactions up to T were
//                                     recorded, and W workers were members (0: not known)
//
// Run time goes on while records are open, evaluation and recovery included, and goes on from the
// file's last line at a resume; time between launches is not in it. A line for every epoch's end,
// and otherwise when run time has grown by 20 ms and by 0.2 %: 5,000 lines in a day.
//
// Errors: a file that cannot be read or written is warned of once, and given up. Threads: one.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/env.h"
#include "base/ids.h"

namespace lockstep::rundir {

class Times {
 public:
  // Cuts the file at `next`. A run that goes on without what was there, from its `first`
  // transaction on, has no times.
  static Times open(Env& env, const std::string& run_dir, Txn first, Txn next);

  // All up to `last` are recorded; `epochs_end`: the end of an epoch is among the new ones.
  void add(Txn last, std::size_t workers, bool epochs_end);

 private:
  explicit Times(Env& env) : env_(&env) {}
  Status start(const std::string& path, Txn first, Txn next);
  void give_up(const Error& error);

  Env* env_;
  std::string path_;
  std::unique_ptr<File> file_;  // null: given up
  double before_s_ = 0;         // run time before it was opened
  double last_s_ = 0;           // of the last line
  std::uint64_t opened_ns_ = 0;
};

}  // namespace lockstep::rundir

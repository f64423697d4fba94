// What torchrun prints when a plain program fails: every failed worker, and the first failure last,
// with its own error where the worker wrote one (error.json of torch.distributed.elastic's
// @record).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/process.h"
#include "launcher/workers.h"

namespace lockstep::launcher {

struct WorkerFailure {
  int rank = 0, local_rank = 0;
  pid_t pid = 0;
  int exit_code = 0;  // negative: the signal that ended it
  double time_s = 0;  // since 1970: the worker's own where it wrote one, else when it was noticed
  std::string error_file;  // empty: none
  std::string message;     // the worker's own, or what ended it
};

// Of a worker that has ended so, now: by its error file, or else by its end.
WorkerFailure failure_of(const Worker& worker, const ChildEvent& child, double now_s);

// Takes time and message from the text of an error file; leaves them where it is no such file.
void read_error_file(std::string_view text, WorkerFailure& failure);

// The other way: an error file in the form that torchrun reads.
std::string error_file_text(const std::string& message, double time_s);

// `failures`: in the order in which they were noticed; not empty. The root cause is the one of the
// earliest time.
std::string failure_report(const std::string& program, const std::vector<WorkerFailure>& failures);

}  // namespace lockstep::launcher

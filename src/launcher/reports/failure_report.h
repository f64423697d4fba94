// What torchrun prints when a plain program fails: every failed worker, and the first failure last,
// with its own error where the worker wrote one (error.json of torch.distributed.elastic's
// @record).
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/processes/process.h"
#include "launcher/workers.h"

namespace lockstep::launcher {

struct WorkerFailure {
  int rank = 0, local_rank = 0;
  pid_t pid = 0;
  int exit_code = 0;  // negative: the signal that ended it
  double time_s = 0;  // since 1970: the worker's own where it wrote one, else when it was noticed
  std::string error_file;  // empty: none
  std::string message;     // the worker's own, or what ended it
  std::string error_text;  // of the error file; empty: none
  std::string host = {};   // where it was; empty: on this machine
};

// Of a worker that has ended so, now: by its error file, or else by its end.
WorkerFailure failure_of(const Worker& worker, const ChildEvent& child, double now_s);

// Takes time and message from the text of an error file; leaves them where it is no such file.
void read_error_file(std::string_view text, WorkerFailure& failure);

// The other way: an error file in the form that torchrun reads. `code`: the errorCode in it.
std::string error_file_text(const std::string& message, double time_s,
                            std::optional<int> code = std::nullopt);

// The one of the earliest time. `failures`: of one machine, in the order in which they were
// noticed; not empty.
std::size_t root_cause_of(const std::vector<WorkerFailure>& failures);

// The error file of the root cause, with errorCode, as torchrun leaves it to whoever has started
// it; made from the failure where there is none.
std::string root_cause_text(const WorkerFailure& root);

// To the launcher's own TORCHELASTIC_ERROR_FILE, if it has one.
void write_own_error_file(const std::string& text);

// `root`: the index of the root cause.
std::string failure_report(const std::string& program, const std::vector<WorkerFailure>& failures,
                           std::size_t root);

}  // namespace lockstep::launcher

// Where workers of plain programs write what went wrong (torchrun's TORCHELASTIC_ERROR_FILE) when
// no log directory is given: files in a temporary folder of the launcher's own, which goes with it.
// Real files, so that a worker may replace its own, and that one in another PID namespace finds it.
//
// A launcher that is killed leaves its folder; the next one of the same user that makes one
// beside it removes it, by the lock that a live launcher holds. Threads: one.
#pragma once

#include <string>

#include "base/unique_fd.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

class ErrorFiles {
 public:
  // kDisk: no place for temporary files.
  static Result<ErrorFiles> open();
  ~ErrorFiles();
  ErrorFiles(ErrorFiles&& other) noexcept;
  ErrorFiles& operator=(ErrorFiles&&) = delete;

  // The name of a file that is not there yet, in a folder of that attempt and local rank.
  Result<std::string> name_for(int attempt, int local_rank) const;

 private:
  ErrorFiles(std::string folder, UniqueFd lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}

  std::string folder_;
  UniqueFd lock_;
};

}  // namespace lockstep::launcher

// Where the workers' output goes: torchrun's layout, --redirects, --tee and --local-ranks-filter.
//
//   <log-dir>/<run id>_<random>/attempt_<n>/<local rank>/{stdout.log,stderr.log,error.json}
//
// --log-dir /dev/null: no files. As with torchrun, what --redirects would keep goes to the console.
//
// Unlike torchrun's, teed lines never tear each other.
//
// Files get the workers' bytes as they are. On the console a line ends at \n, \r or \r\n, as in
// torchrun's tee (Python's universal newlines): each refresh of a progress bar is a line. What has
// no end for 64 MiB is passed on in lines of that size. Teed files are written beside the loop
// (file_writer.h): a disk that stands still does not hold the launcher up, and the worker only when
// 1 MiB is waiting.
//
// Errors: kDisk. Threads: one; pipes are read from the loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "launcher/background.h"
#include "launcher/options/options.h"
#include "launcher/output/console.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

// The worker's ends; close them once it is started.
struct Outputs {
  UniqueFd out, err;
  std::string folder;  // of this attempt and local rank; empty without a log directory
};

class Logs {
 public:
  // Makes the run's folder where options ask for one. `loop` and `console` must outlive the object.
  static Result<Logs> open(const LaunchOptions& options, Loop& loop, Console& console);

  // A replacement appends to the logs of the worker that it replaces.
  Result<Outputs> open_worker(int attempt, int local_rank, int rank);
  // A console that is full holds the workers back: their pipes are not read until this is called
  // and finds room again. Now and then, too: says which disk is late.
  void go_on();
  // Whether a write(2) of this worker may wait for the console's reader, and where: a tee whose
  // pipe we do not read, or the launcher's own standard output or error, which has no room.
  std::optional<Console::Target> waits_for_reader(int local_rank) const;
  // Whether it may wait for the disk of its log: a tee whose pipe we do not read for that.
  bool waits_for_disk(int local_rank) const;
  // Reads what is still in the pipes and lets go of them. `make_room` is called where the console
  // is full; false: it gets no room any more, and the rest goes to the files alone. Waits for their
  // disk until `enough`, asked ten times a second, says so.
  void drain(const std::function<bool()>& make_room, const std::function<bool()>& enough);
  // Removes the run's folder, and the one for temporary files, if no worker has written a byte
  // there (`but_errors`: but for error.json, told already): of a run that has not begun.
  void remove_unused(bool but_errors);
  // Removes the run's folder if there is nothing in it: no worker was started.
  void remove_if_empty();
  // The run's folder; empty without a log directory.
  const std::string& folder() const { return folder_; }

 private:
  struct Tee;  // one teed stream
  Logs(const LaunchOptions& options, Loop& loop, Console& console)
      : options_(&options),
        loop_(&loop),
        console_(&console),
        disk_(std::make_unique<Background>(loop)) {}
  Result<UniqueFd> open_stream(const std::string& folder, Stream stream, int local_rank, int rank);
  bool redirects(int local_rank, Stream stream) const;
  bool on_console(int local_rank) const;
  void look_at_room();
  bool reads(const Tee& tee) const;
  void pump(Tee& tee);
  void close_pipe(Tee& tee);
  bool disk_is_busy() const;
  bool wait_for_disk(const std::function<bool()>& enough);

  const LaunchOptions* options_;
  Loop* loop_;
  Console* console_;
  std::string folder_;
  std::string temporary_;  // of ours, with the folder in it; empty: the user's
  std::vector<std::shared_ptr<Tee>> tees_;
  bool held_ = false;                 // those on the console are not read
  std::unique_ptr<Background> disk_;  // behind the tees, whose files it writes
  // Not on the stack, which may be small (ulimit -s).
  std::vector<char> buffer_ = std::vector<char>(std::size_t{64} << 10);
};

}  // namespace lockstep::launcher

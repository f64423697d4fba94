// The agent's last acts: what is still to be written, what has to be said of the run's end, and
// that nothing is left behind.
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/env.h"
#include "base/log.h"
#include "base/processes.h"
#include "base/text.h"
#include "coord/faults.h"
#include "launcher/agent.h"
#include "rundir/names.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

}  // namespace

void Agent::shut_down() {
  loop_.remove(signals_.get());  // signalled() reads it, and end_children() looks at children
  if (linked_) linked_->end_bar();
  if (nodes_) nodes_->leave();
  if (hosts_) hosts_->leave();
  arrivals_.reset();  // whoever comes now begins another run
  spawner_.close();
  end_children();
  if (nodes_) nodes_->end_watch();
  const auto enough = [this] { return signalled(); };
  std::chrono::milliseconds patience = std::max<std::chrono::milliseconds>(
      options_.shutdown_timeout, 5s);  // with a reader that takes nothing
  const auto make_room = [&] {
    const bool reads = console_.make_room(patience, enough);
    if (!reads) patience = 0ms;
    return reads;
  };
  logs_->drain(make_room, enough);
  const Deadline disk = Deadline::in(30s);
  bool disk_answers = true;
  if (linked_) {
    const LinkedRun::Ended ended = linked_->end(*exit_code_, disk);
    disk_answers = ended.disk_answers;
    if (*exit_code_ == 0 && !ended.records.ok()) exit_code_ = exit_code(ended.records.error().kind);
  }
  if (*exit_code_ != 0) report_failures();
  if (!background_.finish(disk)) {
    disk_answers = false;
    log_warning("the disk does not take the last reports; they are not written");
  }
  if (linked_ && !linked_->trains() && *exit_code_ != 0)
    logs_->remove_unused(linked_->refused_options());
  if (!linked_) logs_->remove_if_empty();  // the nodes have never met
  if (linked_) linked_->leave_directory(disk_answers);
  if (const auto missing = console_.finish(patience, enough); missing.any()) tell_missing(missing);
}

// If another node's failure has ended the run, that node and the leader print the whole report.
// What failed here was a consequence, and has had its one line.
void Agent::report_failures() {
  // Whoever was ended by the signal that ended the run has not failed.
  if (*exit_code_ > kSignalled)
    std::erase_if(failures_, [this](const WorkerFailure& failure) {
      return failure.exit_code == *exit_code_ || failure.exit_code == kSignalled - *exit_code_;
    });
  std::optional<std::size_t> root;
  if (nodes_ && nodes_->failed_elsewhere()) {
    const std::vector<WorkerFailure> here = std::exchange(failures_, {});
    if (const auto& failure = nodes_->failure_elsewhere()) failures_.push_back(*failure), root = 0;
    if (root && nodes_->leads()) failures_.insert(failures_.end(), here.begin(), here.end());
  } else if (!failures_.empty()) {
    root = root_cause_of(failures_);
  }
  const bool is_told = !nodes_ || nodes_->leads() || !nodes_->failed_elsewhere();
  if (root && is_told)
    console_.write(Console::kErr, for_terminal(failure_report(program_.name, failures_, *root)));
  tell_whoever_started_us(root);
}

// A launcher or job manager may read a file for its workers' errors; of a run that a program has
// begun itself that is the program's business.
void Agent::tell_whoever_started_us(std::optional<std::size_t> root) const {
  if (attached_ || spawner_.is_spawned()) return;
  const std::string text =
      !root ? error_file_text(errors_told_.empty()
                                  ? "the run ended with exit code " + std::to_string(*exit_code_)
                                  : errors_told_,
                              posix_env().wall_time_s(), *exit_code_)
            : root_cause_text(failures_[*root]);
  write_own_error_file(text);
}

// A signal to stop while all that is left is to write the last lines.
bool Agent::signalled() const {
  signalfd_siginfo info;
  while (::read(signals_.get(), &info, sizeof info) == sizeof info)
    if (info.ssi_signo != SIGCHLD) return true;
  return false;
}

// The exit code stays the run's own: it is not the run that went wrong.
void Agent::tell_missing(const Console::Missing& missing) {
  std::string text = "the last " + std::to_string(missing.lines) + " lines (" +
                     std::to_string(missing.bytes) +
                     " bytes) of the output were not read, and are "
                     "missing on the console";
  if (!logs_->folder().empty()) text += "; the files in '" + logs_->folder() + "' are whole";
  log_warning(text);  // where standard error takes it; the file is for the rest
  if (logs_->folder().empty()) return;
  const std::string file = logs_->folder() + "/console_incomplete.txt";
  if (auto written = write_atomically(posix_env(), file, text + "\n"); !written.ok())
    log_warning(written.error().message);
}

// What the workers have left behind has the time that is told in helpers.h, less if a signal comes;
// its output is read meanwhile. Zygotes and spares hold nothing.
void Agent::end_children() {
  Deadline tell = Deadline::in(1s);
  bool waits = false, ends = false, at_once = false;
  while (true) {
    while (const auto child = next_child_event())
      if (!spawner_.zygote_event(*child) && nodes_) nodes_->watcher_event(*child);
    std::vector<pid_t> left = children_of(::getpid());
    std::erase_if(left, [this](pid_t child) {
      return helpers_.was_there(child) || (nodes_ && nodes_->keeps(child));
    });
    if (left.empty()) return;
    std::erase_if(
        left, [this](pid_t child) { return spawner_.keeps(child) && ::kill(child, SIGKILL) == 0; });
    at_once = at_once || signalled();
    if (!left.empty() && !at_once && tell.passed() && !std::exchange(waits, true))
      log_info("waiting for what the workers have left behind: " + names_of(left));
    if (!left.empty() && helpers_.until().passed() && !std::exchange(ends, true))
      log_debug("what the workers have left behind is ended: " + names_of(left));
    if (!helpers_.end(left, at_once)) break;
    loop_.run_once(Deadline::in(at_once || left.empty() ? 1ms : 10ms));
    console_.flush();
    logs_->go_on();
  }
  log_warning("a child process does not end even on SIGKILL; it is left behind");
}

}  // namespace lockstep::launcher

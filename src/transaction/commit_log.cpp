#include "transaction/commit_log.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/env.h"
#include "base/log.h"
#include "base/terminal.h"
#include "worker/alone.h"

namespace lockstep::transaction {
namespace {

constexpr const char* kProgressVariable = "LOCKSTEP_PROGRESS";

coord::Progress::Sink to_standard_error() {
  return {[] { return terminal_columns(STDERR_FILENO); },
          [](const std::string& text) {
            std::string line(kEraseLine);
            if (!text.empty()) line += text + "\r";
            // What cannot be written has nowhere to be reported.
            [[maybe_unused]] const auto n = ::write(STDERR_FILENO, line.data(), line.size());
          },
          [](const std::string& text) { log_info(text); }};
}

}  // namespace

Status CommitLog::open(const std::string& run_dir, Txn next, std::uint64_t total_steps,
                       std::uint64_t limit_ns) {
  if (session_.launched()) return {};
  const char* const wish = std::getenv(kProgressVariable);
  LOCKSTEP_ASSIGN(const coord::ProgressMode mode,
                  coord::progress_mode(kProgressVariable, wish == nullptr ? "auto" : wish));
  progress_.emplace(mode, to_standard_error());
  total_steps_ = total_steps;
  limit_ns_ = limit_ns;
  const auto print = [this](std::string_view text) {
    progress_->end();
    progress_->printed(monotonic_ns());
    worker::print_alone(text);
  };
  LOCKSTEP_ASSIGN(recorder_, coord::Recorder::open(posix_env(), run_dir, board_, next, print));
  coord::Recorder::warn_of_missing(posix_env(), run_dir, board_.plan(), next);
  return {};
}

Status CommitLog::wait_for_room(Txn txn) {
  const auto room = [&] { return board_.has_room(txn); };
  if (room()) return {};
  if (!session_.launched()) return recorder_->pump();
  await(slot().bell, room);  // for the launcher to record them
  return {};
}

Status CommitLog::write(const Program& program, Txn txn, const Lines& lines) {
  coord::CommitLines& out = board_.lines(session_.identity().slot, txn);
  const std::uint64_t bytes = lines.console.size() + lines.metrics.size();
  if (bytes > board_.text_capacity())
    return Error{
        ErrorKind::kUsage,
        "the lines of one step or epoch's end (step_lines, epoch_lines, exports) take " +
            std::to_string(bytes) + " bytes, limit " + std::to_string(board_.text_capacity()) +
            " (" + std::to_string(coord::kTextBytes) + ", and " +
            std::to_string(coord::kTextBytesPerShare) + " for each virtual worker): print less"};
  out.console_bytes = static_cast<std::uint32_t>(lines.console.size());
  out.metrics_bytes = static_cast<std::uint32_t>(lines.metrics.size());
  out.is_step = program.is_step(txn) && program.is_border(Txn(txn.value() + 1)) ? 1 : 0;
  out.ends_epoch = program.ends_epoch(txn) ? 1 : 0;
  out.epoch = static_cast<std::uint64_t>(program.epoch(txn));
  out.step = static_cast<std::uint64_t>(program.global_step(txn));
  std::copy(lines.metrics.begin(), lines.metrics.end(),
            std::copy(lines.console.begin(), lines.console.end(),
                      board_.text(session_.identity().slot, txn, bytes)));
  out.mark.store(txn.value() + 1, std::memory_order_release);
  return {};
}

Status CommitLog::committed(const Program& program, Txn txn, const Lines& lines) {
  if (session_.launched()) return {};
  const Txn next(txn.value() + 1);
  const std::uint64_t now = monotonic_ns();
  const bool due = progress_->due(now);
  if (due || !lines.console.empty() || next.value() % (board_.plan().ring / 2) == 0 ||
      next >= program.end())
    LOCKSTEP_TRY(recorder_->pump());
  if (due) tell_progress(now);
  return {};
}

void CommitLog::tell_progress(std::uint64_t now) {
  const coord::Recorder::Recorded& recorded = recorder_->recorded();
  if (recorded.steps == 0) return;  // none of this start
  coord::RunView view = coord::view_of(recorded, board_.header(), now);
  view.total_steps = total_steps_;
  view.limit_ns = limit_ns_;
  view.workers = 1;
  progress_->see(view, now);
}

Status CommitLog::record_all() {
  if (recorder_ == nullptr) return {};
  progress_->end();
  LOCKSTEP_TRY(recorder_->pump());
  return recorder_->sync();
}

}  // namespace lockstep::transaction

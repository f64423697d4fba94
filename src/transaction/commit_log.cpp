#include "transaction/commit_log.h"

#include <algorithm>
#include <cstdio>

#include "base/env.h"
#include "transaction/bell.h"

namespace lockstep::transaction {

Status CommitLog::open(const std::string& run_dir, Txn next) {
  if (session_.launched()) return {};
  LOCKSTEP_ASSIGN(recorder_, coord::Recorder::open(
                                 posix_env(), run_dir, board_, next, [](std::string_view text) {
                                   std::fwrite(text.data(), 1, text.size(), stdout);
                                   std::fflush(stdout);
                                 }));
  return {};
}

Status CommitLog::wait_for_room(Txn txn) {
  const auto room = [&] {
    return board_.header().recorded_txn.load(std::memory_order_acquire) + board_.plan().ring >
           txn.value();
  };
  if (room()) return {};
  if (!session_.launched()) return recorder_->pump();
  return wait_bell(slot().bell, room, "the launcher to record committed steps", kPeerDeadline);
}

Status CommitLog::write(const Program& program, Txn txn, const Lines& lines) {
  coord::CommitLines& out = board_.lines(session_.identity().slot, txn);
  if (lines.console.size() + lines.metrics.size() > coord::kCommitTextBytes)
    return Error{ErrorKind::kUsage,
                 "the lines of one step or epoch's end (step_lines, epoch_lines, exports) take " +
                     std::to_string(lines.console.size() + lines.metrics.size()) +
                     " bytes, limit " + std::to_string(coord::kCommitTextBytes)};
  out.console_bytes = static_cast<std::uint32_t>(lines.console.size());
  out.metrics_bytes = static_cast<std::uint32_t>(lines.metrics.size());
  out.is_step = program.is_step(txn) ? 1 : 0;
  out.epoch = static_cast<std::uint32_t>(program.epoch(txn));
  out.step = static_cast<std::uint64_t>(program.global_step(txn));
  std::copy(lines.metrics.begin(), lines.metrics.end(),
            std::copy(lines.console.begin(), lines.console.end(), out.text));
  out.mark.store(txn.value() + 1, std::memory_order_release);
  return {};
}

Status CommitLog::committed(const Program& program, Txn txn, const Lines& lines) {
  if (session_.launched()) return {};
  const Txn next(txn.value() + 1);
  if (!lines.console.empty() || next.value() % (board_.plan().ring / 2) == 0 ||
      next >= program.end())
    return recorder_->pump();
  return {};
}

Status CommitLog::record_all() {
  if (recorder_ == nullptr) return {};
  LOCKSTEP_TRY(recorder_->pump());
  return recorder_->sync();
}

}  // namespace lockstep::transaction

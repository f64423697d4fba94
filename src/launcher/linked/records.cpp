#include "launcher/linked/records.h"

#include <algorithm>
#include <utility>

namespace lockstep::launcher {

using namespace std::chrono_literals;

Status Records::open(const std::string& run_dir, const coord::Board& board, Txn next) {
  if (here_.to == Txn(0)) here_.from = next;
  LOCKSTEP_ASSIGN(recorder_, coord::Recorder::open(env_, run_dir, board, next, told_.lines, here_));
  ring_ = board.plan().ring;
  return {};
}

void Records::close() {
  pump();
  here_.to = std::max(here_.to, next());
  recorder_.reset();
  wanted_.clear();
  syncing_ = false;
}

void Records::pump() {
  if (recorder_ == nullptr || error_) return;
  const std::uint64_t before = recorder_->next().value();
  if (auto pumped = recorder_->pump(); !pumped.ok()) return fail(pumped.error());
  // Short steps fill the ring of records faster.
  const std::uint64_t count = recorder_->next().value() - before;
  if (count > ring_ / 8)
    pause_ = std::max(pause_ / 2, 1ms);
  else if (count < ring_ / 32)
    pause_ = std::min(pause_ * 2, 20ms);
  begin_sync();
}

void Records::sync(WorkerUid uid, Txn txn) {
  wanted_.push_back({uid, txn});
  if (error_) return answer_all(*error_);
  pump();
}

void Records::begin_sync() {
  if (syncing_) return;
  for (Wanted& wanted : wanted_) syncing_ |= wanted.begun = wanted.txn <= next();
  if (!syncing_) return;
  background_.run([recorder = recorder_] { return recorder->sync(); },
                  [this, recorder = std::weak_ptr(recorder_)](const Status& status) {
                    if (recorder_ != nullptr && recorder.lock() == recorder_) end_sync(status);
                  });
}

void Records::end_sync(const Status& status) {
  syncing_ = false;
  if (error_) return;
  if (!status.ok() && recorder_->broken()) return fail(status.error());
  const auto error = status.ok() ? std::nullopt : std::optional(status.error());
  std::vector<Wanted> open;
  for (const Wanted& wanted : std::exchange(wanted_, {}))
    if (wanted.begun)
      told_.synced(wanted.uid, wanted.txn, error);
    else
      open.push_back(wanted);
  wanted_.insert(wanted_.end(), open.begin(), open.end());
  begin_sync();
}

Status Records::finish() {
  if (error_) return *error_;
  if (recorder_ == nullptr) return {};
  LOCKSTEP_TRY(recorder_->pump());
  return recorder_->sync();
}

void Records::fail(const Error& error) {
  if (error_) return;
  error_ = error;
  told_.failed(error);
  answer_all(error);
}

void Records::answer_all(const Error& error) {
  for (const Wanted& wanted : std::exchange(wanted_, {}))
    told_.synced(wanted.uid, wanted.txn, error);
}

}  // namespace lockstep::launcher

#include "coord/plain/run.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "coord/words.h"
#include "lockstep/status.h"

namespace lockstep::coord::plain {

Run::Run(const std::vector<int>& workers, int max_restarts) : budget_(max_restarts, 0) {
  for (const int count : workers) {
    rows_.push_back({count});
    world_size_ += count;
  }
}

Orders Run::start() {
  begin();
  return std::exchange(orders_, {});
}

Orders Run::handle(int host, const Report& report) {
  std::visit([&](const auto& what) { on(host, what); }, report);
  return std::exchange(orders_, {});
}

void Run::on(int host, const report::Well& well) {
  if (state_ != State::kRunning || well.attempt != attempt_) return;
  rows_.at(static_cast<std::size_t>(host)).well = true;
  if (all(&Row::well)) end(0, "all workers have exited 0");
}

void Run::on(int /*host*/, const report::Failed& failed) {
  if (state_ != State::kRunning || failed.attempt != attempt_) return;
  if (failed.code) return stop(*failed.code, failed.text, SIGTERM);
  restart_or_stop(failed);
}

void Run::on(int host, const report::Gone& gone) {
  if (gone.attempt != attempt_) return;
  rows_.at(static_cast<std::size_t>(host)).gone = true;
  if (!all(&Row::gone)) return;
  if (state_ == State::kEnding) begin();
  if (state_ == State::kStopping) end(code_, reason_);
}

void Run::on(int /*host*/, const report::Signalled& signalled) {
  stop(128 + signalled.signal, "stopped by " + signal_name(signalled.signal), signalled.signal);
}

void Run::begin() {
  state_ = State::kRunning;
  ++attempt_;
  int base_rank = 0;
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    rows_[i].well = rows_[i].gone = false;
    orders_.push_back({static_cast<int>(i), order::Begin{attempt_, world_size_, base_rank,
                                                         budget_.used(), budget_.most()}});
    base_rank += rows_[i].workers;
  }
}

// What a plain program gets done nobody sees: each restart counts as progress.
void Run::restart_or_stop(const report::Failed& failed) {
  if (budget_.charge(std::nullopt) != RestartBudget::Verdict::kAllowed)
    return stop(failed.from_outside ? exit_code(ErrorKind::kResumable) : 1,
                failed.text + "; " + budget_.refusal(), SIGTERM);
  state_ = State::kEnding;
  tell_all(order::End{attempt_, failed.text + "; " + budget_.announcement()});
}

void Run::stop(int code, const std::string& reason, int signal) {
  if (state_ == State::kStopping || state_ == State::kOver) return;
  state_ = State::kStopping;
  code_ = code;
  reason_ = reason;
  tell_all(order::Stop{reason, signal});
}

void Run::end(int code, const std::string& reason) {
  state_ = State::kOver;
  tell_all(order::Final{code, reason});
}

void Run::tell_all(const Order& order) {
  for (std::size_t i = 0; i < rows_.size(); ++i) orders_.push_back({static_cast<int>(i), order});
}

bool Run::all(bool Row::*said) const {
  return std::all_of(rows_.begin(), rows_.end(), [&](const Row& row) { return row.*said; });
}

}  // namespace lockstep::coord::plain

#include "coord/plain/run.h"

#include <csignal>
#include <utility>

#include "base/signal_name.h"
#include "coord/words.h"
#include "lockstep/status.h"

namespace lockstep::coord::plain {

Orders Run::start() {
  begin();
  return std::exchange(orders_, {});
}

Orders Run::handle(const Report& report) {
  std::visit([this](const auto& what) { on(what); }, report);
  return std::exchange(orders_, {});
}

void Run::on(const report::Well& well) {
  if (state_ == State::kRunning && well.attempt == attempt_) end(0, "all workers have exited 0");
}

void Run::on(const report::Failed& failed) {
  if (state_ != State::kRunning || failed.attempt != attempt_) return;
  if (failed.code) return stop(*failed.code, failed.text, SIGTERM);
  restart_or_stop(failed);
}

void Run::on(const report::Gone& gone) {
  if (gone.attempt != attempt_) return;
  if (state_ == State::kEnding) begin();
  if (state_ == State::kStopping) end(code_, reason_);
}

void Run::on(const report::Signalled& signalled) {
  stop(128 + signalled.signal, "stopped by " + signal_name(signalled.signal), signalled.signal);
}

void Run::begin() {
  state_ = State::kRunning;
  ++attempt_;
  orders_.emplace_back(order::Begin{attempt_, workers_, 0, budget_.used(), budget_.most()});
}

// What a plain program gets done nobody sees: each restart counts as progress.
void Run::restart_or_stop(const report::Failed& failed) {
  if (budget_.charge(std::nullopt) != RestartBudget::Verdict::kAllowed)
    return stop(failed.from_outside ? exit_code(ErrorKind::kResumable) : 1,
                failed.text + "; " + budget_.refusal(), SIGTERM);
  state_ = State::kEnding;
  orders_.emplace_back(order::End{attempt_, failed.text + "; " + budget_.announcement()});
}

void Run::stop(int code, const std::string& reason, int signal) {
  if (state_ == State::kStopping || state_ == State::kOver) return;
  state_ = State::kStopping;
  code_ = code;
  reason_ = reason;
  orders_.emplace_back(order::Stop{reason, signal});
}

void Run::end(int code, const std::string& reason) {
  state_ = State::kOver;
  orders_.emplace_back(order::Final{code, reason});
}

}  // namespace lockstep::coord::plain

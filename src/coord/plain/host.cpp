#include "coord/plain/host.h"

#include <algorithm>

#include "base/signal_name.h"
#include "coord/exit_status.h"
#include "coord/head.h"
#include "coord/words.h"
#include "lockstep/status.h"

namespace lockstep::coord::plain {

Told Host::handle(const Event& event, std::uint64_t now_ns) {
  if (state_ == State::kStopped) return {};
  begin_turn(now_ns);
  std::visit([this](const auto& what) { on(what); }, event);
  fire_timers();
  return end_turn();
}

Told Host::handle(const Order& order, std::uint64_t now_ns) {
  if (state_ == State::kStopped) return {};
  begin_turn(now_ns);
  std::visit([this](const auto& what) { obey(what); }, order);
  return end_turn();
}

// The agent's own silence nobody could use: every time that workers are given is longer by it.
void Host::begin_turn(std::uint64_t now_ns) {
  const std::uint64_t gap = now_ == 0 ? 0 : now_ns - now_;
  now_ = now_ns;
  if (gap <= kAgentPause) return;
  for (auto* at : {&judge_at_, &kill_at_, &tell_wait_at_})
    if (*at) **at += gap;
}

Told Host::end_turn() {
  if (begins_ && !unswept_) spawn();
  report_end();
  return std::exchange(told_, {});
}

void Host::obey(const order::Begin& begin) {
  if (begin.attempt <= begun_.attempt) return;
  restarts_ = begun_.attempt != 0 || begin.restart_count > 0;
  begun_ = begin;
  failed_ = end_told_ = ends_ = false;
  if (state_ == State::kStopping) return;  // and none of its workers lives
  state_ = State::kStarting;
  begins_ = true;
}

void Host::spawn() {
  begins_ = false;
  unswept_ = true;
  if (restarts_)
    act(action::RestartGroup{begun_.restart_count}, "all workers of the old group are gone");
  for (int i = 0; i < config_.workers; ++i) {
    const WorkerUid uid(++last_uid_);
    const Rank rank(begun_.base_rank + i);
    processes_[uid].rank = rank.value();
    act(action::Spawn{uid, Slot(static_cast<std::uint32_t>(i)), rank, LocalRank(i),
                      begun_.world_size, begun_.restart_count, begun_.max_restarts, false},
        "the group starts");
  }
}

// A worker may have been a script around the program that computes, which must not meet the next
// attempt's; so this is over once nothing is left.
void Host::obey(const order::End& end) {
  if (end.attempt != begun_.attempt) return;
  tell_held();
  ends_ = true;
  if (state_ == State::kStopping) {
    kill_at_.reset();
    return kill_all(SIGKILL, "its host may not go on");
  }
  state_ = State::kEnding;
  begins_ = end_told_ = false;
  if (!end.text.empty()) print(action::Severity::kWarning, end.text);
  kill_all(SIGKILL, "the group starts again");
}

void Host::obey(const order::Stop& end) {
  tell_held();
  stop(end.reason, end.signal);
}

void Host::obey(const order::Final& final) {
  state_ = State::kStopped;
  act(action::Stop{final.code}, final.reason);
}

void Host::on(const event::Forked& forked) {
  const auto it = processes_.find(forked.uid);
  if (it == processes_.end() || it->second.killed)
    act(action::Kill{forked.uid, SIGKILL}, "it is not wanted any more");
  if (it == processes_.end()) return;
  it->second.forked = true;
  if (state_ != State::kStarting) return;
  state_ = State::kRunning;
  if (!std::exchange(policy_told_, true) && !config_.asked_for_help)
    print(action::Severity::kInfo, policy_text());
}

std::string Host::policy_text() const {
  if (begun_.where.empty())
    return policy(config_.workers, "when one dies, all are stopped", begun_.max_restarts);
  return policy(begun_.where, "when a worker dies, all on all nodes are stopped",
                begun_.max_restarts);
}

void Host::on(const event::SpawnFailed& failed) {
  if (processes_.erase(failed.uid) == 0) return;
  fail({begun_.attempt, "cannot start a worker: " + failed.reason, true,
        exit_code(ErrorKind::kUnavailable)});
}

void Host::on(const event::Exited& exited) {
  const auto it = processes_.find(exited.uid);
  if (it == processes_.end()) return;
  const int rank = it->second.rank;
  const std::string name = worker_name(rank);
  processes_.erase(it);
  const ExitStatus status = exited.status;
  if (state_ != State::kRunning || status.code == 0) return;
  report::Failed failure{begun_.attempt, name + " ended with " + describe(status),
                         is_from_outside(status)};
  failure.rank = rank;
  failure.by_signal = status.signal != 0;
  failure.has_error_file = exited.has_error_file;
  if (is_wrong_input(status)) {
    failure.code = status.code;
    return fail(std::move(failure));
  }
  if (judge_at_) return;  // what the others die of meanwhile is the first one's death
  if (!is_by(status, config_.stop_signals)) return fail(std::move(failure));
  held_ = std::move(failure);
  judge_at_ = now_ + config_.timing.signal_wait;
}

void Host::on(const event::Signal& signal) {
  const bool again = last_signal_ && last_signal_->first == signal.number &&
                     now_ - last_signal_->second < config_.timing.same_signal;
  if (again) return;
  last_signal_ = {signal.number, now_};
  if (state_ != State::kStopping) {
    told_.reports.emplace_back(report::Signalled{signal.number, signal.by});
    return stop("stopped by " + (signal.by.empty() ? signal_name(signal.number) : signal.by),
                signal.number);
  }
  if (signal.number != SIGINT && signal.number != SIGQUIT) return;
  told_.reports.emplace_back(report::Signalled{signal.number});
  kill_at_.reset();
  kill_all(SIGKILL, "a second signal: at once");
}

void Host::fail(report::Failed failure) {
  judge_at_.reset();
  if (!std::exchange(failed_, true)) told_.reports.emplace_back(std::move(failure));
}

// A death that may have been meant for all: so it counts, with its age.
void Host::tell_held() {
  if (!judge_at_) return;
  const std::uint64_t died_at = *judge_at_ - config_.timing.signal_wait;
  held_.age_ns = now_ - std::min(now_, died_at);
  fail(std::move(held_));
}

void Host::stop(const std::string& reason, int signal) {
  if (state_ == State::kStopping) return;
  state_ = State::kStopping;
  begins_ = end_told_ = false;
  judge_at_.reset();
  if (!reason.empty()) print(action::Severity::kError, reason);
  kill_at_ = now_ + config_.timing.kill_grace;
  tell_wait_at_ = now_ + kStopWaitTold;
  kill_all(signal, "the run stops");
}

void Host::kill_all(int signal, const char* why) {
  for (auto& [uid, process] : processes_) {
    process.killed = process.killed || signal == SIGKILL || !process.forked;
    act(action::Kill{uid, signal}, why);
  }
}

// Once for each attempt, and once more where it was ended after it had ended well.
void Host::report_end() {
  if (!processes_.empty() || judge_at_ || end_told_ || begun_.attempt == 0) return;
  if (ends_ && unswept_) return;
  const bool well = state_ == State::kRunning && !failed_;
  const bool gone = state_ == State::kEnding || state_ == State::kStopping;
  end_told_ = well || gone;
  if (well) told_.reports.emplace_back(report::Well{begun_.attempt});
  if (gone) told_.reports.emplace_back(report::Gone{begun_.attempt});
}

void Host::fire_timers() {
  if (judge_at_ && *judge_at_ <= now_) tell_held();
  if (due(kill_at_)) kill_late();
  if (due(tell_wait_at_)) tell_wait();
}

bool Host::due(std::optional<std::uint64_t>& at) const {
  const bool is = at && *at <= now_;
  if (is) at.reset();
  return is;
}

// By its rank in the run and, on several hosts, by the one among the workers here.
std::string Host::worker_name(int rank) const {
  std::string name = "rank " + std::to_string(rank);
  if (begun_.world_size == config_.workers) return name;
  return name + " (local rank " + std::to_string(rank - begun_.base_rank) + ")";
}

template <class Whom>
std::string Host::names(Whom whom) const {
  std::string text;
  for (const auto& [uid, process] : processes_)
    if (whom(process)) text += (text.empty() ? "" : ", ") + worker_name(process.rank);
  return text;
}

void Host::kill_late() {
  const std::string late =
      names([](const Process& process) { return process.forked && !process.killed; });
  if (!late.empty())
    print(action::Severity::kWarning, not_ended(late, config_.timing.kill_grace,
                                                "they were told to end", " (--shutdown-timeout)"));
  kill_all(SIGKILL, "it has not ended in time");
}

void Host::tell_wait() {
  const std::string left =
      names([](const Process& process) { return process.forked || !process.killed; });
  if (kill_at_ && *kill_at_ > now_ && !left.empty())
    print(action::Severity::kInfo, waiting_for(left, *kill_at_ - now_));
}

std::string_view Host::state() const {
  static constexpr std::string_view kNames[] = {"starting", "running", "restarting", "stopping",
                                                "stopped"};
  return kNames[static_cast<int>(state_)];
}

std::uint64_t Host::next_deadline(std::uint64_t now_ns) const {
  std::uint64_t next = now_ns + kAgentPause / 2;
  if (state_ == State::kStopped) return next;
  for (const auto* at : {&judge_at_, &kill_at_, &tell_wait_at_})
    if (*at) next = std::min(next, **at);
  return std::max(next, now_ns);
}

}  // namespace lockstep::coord::plain

#include "coord/plain/several_hosts.h"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <utility>

#include "coord/words.h"
#include "lockstep/status.h"

namespace lockstep::coord::plain {

SeveralHosts::SeveralHosts(const HostConfig& config, const nodes::Rules& rules, nodes::Row row,
                           std::uint64_t now_ns)
    : rules_(rules), host_(config), node_(rules, std::move(row), now_ns) {}

Actions SeveralHosts::handle(const Event& event, std::uint64_t now_ns) {
  now_ = now_ns;
  if (over_) return {};
  take(host_.handle(event, now_));
  do node_.tick(now_);
  while (obey());
  tell_end();
  return std::exchange(actions_, {});
}

void SeveralHosts::take(Told told) {
  std::move(told.actions.begin(), told.actions.end(), std::back_inserter(actions_));
  for (const Report& report : told.reports)
    std::visit([this](const auto& what) { on(what); }, report);
}

void SeveralHosts::on(const report::Well& /*attempt*/) { node_.workers_gone(true); }

void SeveralHosts::on(const report::Gone& /*attempt*/) { node_.workers_gone(false); }

void SeveralHosts::on(const report::Failed& failed) {
  const int code = failed.code.value_or(failed.from_outside ? exit_code(ErrorKind::kResumable) : 1);
  nodes::Failure failure;
  failure.text = failed.text;
  failure.code = code;
  failure.final = failed.code.has_value();
  failure.rank = failed.rank;
  failure.by_signal = failed.by_signal;
  failure.has_error_file = failed.has_error_file;
  failure.age_ns = failed.age_ns;
  node_.workers_failed(std::move(failure), now_);
}

void SeveralHosts::on(const report::Signalled& signalled) {
  stop_told_ = true;  // by the host
  node_.signalled(signalled.signal, signalled.by);
}

// One thing at a time; false: nothing is left to do.
bool SeveralHosts::obey() {
  if (over_) return false;
  const nodes::Node::Wish wish = node_.wish();
  if (wish.run != 0 && wish.run == reached_) return begin(wish.run);
  if (wish.signal != 0 && wish.signal != signalled_ && signalled_ != SIGKILL)
    return end(wish.signal);
  return node_.ending() && leave(*node_.ending());
}

bool SeveralHosts::begin(nodes::Attempt attempt) {
  const nodes::Node::Share& share = node_.share();
  if (begun_ != 0 && end_told_ < attempt - 1)
    print(action::Severity::kWarning, end_text(attempt - 1));
  else if (waits_told_)
    print(action::Severity::kInfo, "all nodes are there; " + again(attempt - 1));
  waits_told_ = false;
  begun_ = attempt;
  signalled_ = 0;
  node_.workers_started();
  take(host_.handle(order::Begin{static_cast<int>(attempt), static_cast<int>(share.world),
                                 static_cast<int>(share.base_rank), static_cast<int>(attempt) - 1,
                                 rules_.max_restarts, where_},
                    now_));
  return true;
}

bool SeveralHosts::end(int signal) {
  signalled_ = signal;
  if (signal == SIGKILL) {
    // Where none is left what ends the run is told at its end; as is a cause that is not known yet.
    const bool tells = !stop_told_ && !node_.leaves() &&
                       begun_ <= static_cast<nodes::Attempt>(rules_.max_restarts) &&
                       !node_.why().empty();
    take(host_.handle(order::End{static_cast<int>(begun_), tells ? end_text(begun_) : ""}, now_));
    return true;
  }
  const std::string reason = node_.why();
  stop_told_ = stop_told_ || !reason.empty();
  take(host_.handle(order::Stop{reason, signal}, now_));
  return true;
}

// As soon as it is known: it was not when its workers were killed; or it had none, and neither may
// the next one.
void SeveralHosts::tell_end() {
  if (over_ || stop_told_ || node_.leaves() || node_.why().empty()) return;
  const nodes::Attempt killed = signalled_ == SIGKILL ? begun_ : 0;
  const nodes::Attempt ended = std::max(node_.restarts_after(), killed);
  if (ended <= end_told_ || ended > static_cast<nodes::Attempt>(rules_.max_restarts)) return;
  print(action::Severity::kWarning, end_text(ended));
}

std::string SeveralHosts::end_text(nodes::Attempt attempt) {
  end_told_ = attempt;
  const std::string& missing = node_.waits_for();
  const bool waits = !missing.empty() || !node_.is_led(now_);
  if (!waits || node_.wish().run != 0) return node_.why() + "; " + again(attempt);
  waits_told_ = true;
  return node_.why() + "; all workers are stopped, and wait for " +
         (missing.empty() ? "it" + node_.tries_on(now_) : missing) + "; restart " + count(attempt) +
         " once all are there";
}

std::string SeveralHosts::again(nodes::Attempt attempt) const {
  return "the group starts again (restart " + count(attempt) + ")";
}

std::string SeveralHosts::count(nodes::Attempt attempt) const {
  return std::to_string(attempt) + " of " + std::to_string(rules_.max_restarts);
}

bool SeveralHosts::leave(const nodes::Final& final) {
  over_ = true;
  if (final.code != 0 && !stop_told_) print(action::Severity::kError, final.text);
  take(host_.handle(order::Final{final.code, final.text}, now_));
  return false;
}

void SeveralHosts::print(action::Severity severity, std::string text) {
  actions_.push_back({action::Print{severity, std::move(text)}, "report"});
}

RunStatus SeveralHosts::status() const {
  RunStatus status;
  status.state = host_.state();
  status.target_world_size = node_.share().world;
  status.restarts = static_cast<int>(std::max<nodes::Attempt>(begun_, 1)) - 1;
  status.max_restarts = rules_.max_restarts;
  return status;
}

std::uint64_t SeveralHosts::next_deadline(std::uint64_t now_ns) const {
  return std::min(host_.next_deadline(now_ns), node_.next_deadline(now_ns));
}

}  // namespace lockstep::coord::plain

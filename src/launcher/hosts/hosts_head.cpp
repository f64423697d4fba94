#include "launcher/hosts/hosts_head.h"

#include <algorithm>
#include <csignal>
#include <iterator>
#include <numeric>
#include <string>
#include <variant>

#include "base/signal_name.h"
#include "base/text.h"

namespace lockstep::launcher {

namespace action = coord::action;
namespace event = coord::event;

void HostsHead::form(coord::HostPlace place) {
  coord::Config config = config_;
  config.workers = std::accumulate(place.workers.begin(), place.workers.end(), std::uint32_t{0});
  coordinator_.emplace(config, std::move(place));
}

void HostsHead::leave(int code, std::string why) {
  if (!leaves_) leaves_ = {code, std::move(why)};
}

coord::Actions HostsHead::handle(const coord::Event& event, std::uint64_t now_ns) {
  if (over_) return {};
  const auto* signal = std::get_if<event::Signal>(&event);
  const bool is_first = signal != nullptr && std::exchange(signal_, signal->number) == 0;
  if (waits_alone_ && signal_ != 0)  // also one that a leader has heard that leads no more
    leave(128 + signal_, "stopped by " + signal_name(signal_) + " while this node was alone");
  coord::Actions actions;
  const auto add = [&](coord::Actions more) {
    actions.insert(actions.end(), std::make_move_iterator(more.begin()),
                   std::make_move_iterator(more.end()));
  };
  if (is_first) tell_signal(actions);
  if (leaves_) {
    if (coordinator_)
      for (const coord::WorkerView& worker : coordinator_->view().workers)
        actions.push_back({action::Kill{worker.uid, SIGKILL}, leaves_->second});
    const bool is_asked = leaves_->first == 0 || leaves_->first > 128;
    const auto severity = is_asked ? action::Severity::kInfo : action::Severity::kError;
    if (!leaves_->second.empty())
      actions.push_back({action::Print{severity, leaves_->second}, "it leaves the run"});
    actions.push_back({action::Stop{leaves_->first}, leaves_->second});
  } else if (!coordinator_) {
    return wait(event);
  } else {
    if (!std::exchange(started_, true)) add(coordinator_->handle(event::Start{}, now_ns));
    const auto work_off = [&] {
      for (const Work& work : std::exchange(works_, {})) add(work(*coordinator_, now_ns));
    };
    work_off();
    if (!std::holds_alternative<event::Start>(event)) add(coordinator_->handle(event, now_ns));
    work_off();  // what this host says to itself, where it leads
  }
  hold_end(actions);
  if (ended_ && std::holds_alternative<event::Signal>(event)) let_go();  // whoever is impatient
  if (is_let_go_ && ended_ && !leaves_) end(actions);
  over_ = leaves_ || (is_let_go_ && ended_);
  return actions;
}

// Where the run's keeper is, it says what comes of it; here nothing is seen of it for some time.
void HostsHead::tell_signal(coord::Actions& actions) {
  if (!coordinator_ || coordinator_->leads() != nullptr || leaves_) return;
  const std::string text = signal_name(signal_) +
                           ": the run is asked to stop, on all nodes; ^C once more ends it at once";
  actions.push_back({action::Print{action::Severity::kInfo, text}, "a signal"});
}

// Where the run's keeper is, it says so too.
void HostsHead::hold_end(coord::Actions& actions) {
  if (leaves_) return;
  std::erase_if(actions, [this](const coord::Action& each) {
    const auto* stop = std::get_if<action::Stop>(&each.what);
    if (stop == nullptr) return false;
    if (!ended_) ended_ = *stop, ended_by_ = each.reason;
    return true;
  });
}

// The leader has said why, on its own node.
void HostsHead::end(coord::Actions& actions) {
  const int code = ended_->exit_code;
  if (code != 0 && coordinator_->leads() == nullptr) {
    const std::string text = "the run ends with code " + std::to_string(code) +
                             " on all nodes: " + for_terminal(ended_by_);
    const auto severity = code > 128 ? action::Severity::kInfo : action::Severity::kError;
    actions.push_back({action::Print{severity, text}, "the run's end"});
  }
  actions.push_back({*ended_, ended_by_});
}

// There are no workers yet.
coord::Actions HostsHead::wait(const coord::Event& event) {
  const auto* signal = std::get_if<event::Signal>(&event);
  if (signal == nullptr) return {};
  over_ = true;
  return {{action::Stop{128 + signal->number},
           "stopped by " + signal_name(signal->number) + " before all nodes had come"}};
}

coord::RunStatus HostsHead::status() const {
  if (coordinator_) return coordinator_->status();
  coord::RunStatus status;
  status.state = "starting";
  status.max_restarts = config_.max_restarts;
  status.max_replacements = config_.max_replacements;
  return status;
}

std::uint64_t HostsHead::next_deadline(std::uint64_t now_ns) const {
  if (coordinator_ && works_.empty()) return coordinator_->next_deadline(now_ns);
  return works_.empty() ? now_ns + coord::kAgentPause / 2 : now_ns;
}

}  // namespace lockstep::launcher

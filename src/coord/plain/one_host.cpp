#include "coord/plain/one_host.h"

#include <iterator>
#include <queue>

namespace lockstep::coord::plain {

OneHost::OneHost(const HostConfig& config, int max_restarts)
    : run_(config.workers, max_restarts), host_(config) {}

Actions OneHost::handle(const Event& event, std::uint64_t now_ns) {
  Actions actions;
  std::queue<Report> reports;
  std::queue<Order> orders;
  const auto take = [&](Told told) {
    std::move(told.actions.begin(), told.actions.end(), std::back_inserter(actions));
    for (Report& report : told.reports) reports.push(std::move(report));
  };
  const auto give = [&](Orders given) {
    for (Order& order : given) orders.push(std::move(order));
  };
  if (std::holds_alternative<event::Start>(event)) give(run_.start());
  take(host_.handle(event, now_ns));
  while (!reports.empty() || !orders.empty()) {
    if (!orders.empty()) {
      take(host_.handle(orders.front(), now_ns));
      orders.pop();
    } else {
      give(run_.handle(reports.front()));
      reports.pop();
    }
  }
  return actions;
}

RunStatus OneHost::status() const {
  RunStatus status;
  status.state = host_.state();
  status.target_world_size = run_.world_size();
  status.restarts = run_.restarts();
  status.max_restarts = run_.max_restarts();
  return status;
}

std::uint64_t OneHost::next_deadline(std::uint64_t now_ns) const {
  return host_.next_deadline(now_ns);
}

}  // namespace lockstep::coord::plain

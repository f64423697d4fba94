// What NodesRun tells who asks from outside (answers.h).
#include <csignal>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "launcher/host_name.h"
#include "launcher/nodes/nodes_run.h"

namespace lockstep::launcher {

using control::message::Answer;

void NodesRun::open_answers() {
  Answers::Events events;
  events.status = [this](const control::message::StatusQuery& query) {
    return answer(query.from, Answers::kMostMembers);
  };
  events.stop = [this](const std::string& from) { return stop(from); };
  answers_ = std::make_unique<Answers>(around_.loop, *timers_, std::move(events));
  const Status there = answers_->listen(around_.options.run_id, party_);
  if (!there.ok())
    log_warning("'lockstep status --id' does not find this node: " + there.error().message);
}

Answer NodesRun::answer(int from, int most) const {
  const NodesOptions& options = around_.options.nodes;
  Answer answer;
  answer.run_id = around_.options.run_id;
  answer.host = host_name();
  const bool six = options.endpoint_host.find(':') != std::string::npos;
  answer.endpoint = (six ? "[" + options.endpoint_host + "]" : options.endpoint_host) + ":" +
                    std::to_string(options.endpoint_port);
  if (spoke_) answer.trouble = spoke_->trouble();
  answer.view =
      hub_ ? hub_->leader().view(from, most, monotonic_ns()) : head_->node().view(monotonic_ns());
  // Its own node's is the endpoint as the user gave it.
  for (nodes::Member& member : answer.view.members)
    if (member.rank == answer.view.rank && (hub_ || spoke_->is_open()))
      member.address = own_address();
  // Of the leader's own node it is where others reach it.
  if (auto& store = answer.view.store; store && store->address.empty())
    store->address = own_address();
  return answer;
}

// The same as a SIGTERM to this launcher, so the run ends everywhere with 143.
Answer NodesRun::stop(const std::string& from) {
  using State = nodes::View::State;
  Answer before = answer(0, 0);
  before.stops = before.view.state < State::kStopping;
  if (!before.stops) return before;
  log_info("'lockstep stop' on " + for_terminal(from) + " ends the run");
  around_.signalled(SIGTERM);
  return before;
}

}  // namespace lockstep::launcher

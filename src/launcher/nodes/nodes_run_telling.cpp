// What NodesRun tells others: who asks from outside (answers.h); the nodes, of the failure that
// ends the run; and the user, where this node is.
#include <csignal>
#include <utility>

#include "base/endpoint.h"
#include "base/log.h"
#include "base/text.h"
#include "control/address.h"
#include "control/sockets.h"
#include "launcher/nodes/nodes_run.h"
#include "launcher/nodes/root_cause.h"
#include "launcher/nodes/routes.h"
#include "launcher/output/host_name.h"
#include "star/agreement.h"

namespace lockstep::launcher {

using star::message::Answer;

void NodesRun::open_answers() {
  Answers::Events events;
  events.status = [this](const star::message::StatusQuery& query) {
    return answer(query.from, Answers::kMostMembers);
  };
  events.stop = [this](const std::string& from) { return stop(from); };
  answers_ = std::make_unique<Answers>(around_.loop, *timers_, std::move(events));
  const Status there = answers_->listen(around_.options.run_id, party_);
  if (!there.ok())
    log_warning("'lockstep status --id' does not find this node: " + there.error().message);
}

Answer NodesRun::answer(int from, int most) const {
  Answer answer;
  answer.run_id = around_.options.run_id;
  answer.host = host_name();
  const NodesOptions& nodes = around_.options.nodes;
  answer.endpoint = nodes.places.empty() ? leadership_->endpoint() : text_of(nodes.places);
  answer.trouble = leadership_->trouble();
  const star::Hub* hub = leadership_->hub();
  const star::Spoke* spoke = leadership_->spoke();
  answer.view = hub ? hub->leader().view(from, most, now()) : head_->node().view(now());
  // Until now its own node's address is the endpoint as the user gave it.
  for (nodes::Member& member : answer.view.members)
    if (member.rank == answer.view.rank && (hub || (spoke && spoke->is_open())))
      member.address = own_address();
  // The leader's own node serves it, at the address where others reach that node.
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
  around_.signalled(SIGTERM, "'lockstep stop' on " + for_terminal(from));
  return before;
}

// Of a command that was started twice here each takes a rank, and another machine's launcher is one
// too many. Whoever wants two nodes on a machine gives their ranks.
void NodesRun::tell_twin() const {
  const LaunchOptions& options = around_.options;
  const bool may_be_meant =
      options.nodes.node_rank.has_value() || leadership_->meeting().on_this_machine;
  if (may_be_meant || lock_.is_held() ||
      control::names_on_this_machine(socket_names_of(options.run_id)).empty())
    return;
  log_warning("run '" + options.run_id +
              "' has a launcher on this machine already, so this makes two of its " +
              std::to_string(options.nodes.nnodes) + " nodes one machine ('lockstep status --id " +
              options.run_id + "' shows both; if that is meant, give each its --node-rank)");
}

// Where no store is yet, no worker of this run has been told of it.
void NodesRun::adopt(UniqueFd client) {
  if (store_.is_there()) return store_.adopt(std::move(client));
  const auto from = control::Address::remote_of(client.get());
  if (!started_ && from && !std::exchange(stranger_told_, true))
    log_warning(from->host() +
                " speaks PyTorch's TCPStore here, before this run has workers: is torchrun started "
                "there, where 'lockstep run' should be? It is not let in");
}

// Final is known, and says that what ends the run was here.
void NodesRun::tell_failure(const std::optional<nodes::Final>& final, int rank) {
  if (failure_told_ || !final || final->node < 0 || final->node != rank) return;
  const std::vector<WorkerFailure>& failures = around_.failures;
  if (failures.empty()) return;
  failure_told_ = true;
  auto failed = told(failures[root_cause_of(failures)], host_name());
  leadership_->tell(std::move(failed));
}

bool NodesRun::failed_elsewhere() const {
  const auto& end = head_->node().ending();
  return end && end->node >= 0 && end->node != head_->node().share().rank;
}

// The leader's own address may mean nothing here, though the leader was reached at another one.
Error NodesRun::not_reached(const Error& store) const {
  const star::Spoke* spoke = leadership_->spoke();
  const bool is_leaders = spoke && head_->node().leader_rank() == 0;
  const std::string& address = head_->node().share().store->address;
  return {store.kind,
          store.message + (is_leaders ? star::forwarding(spoke->leader_address(), address) : "")};
}

std::string NodesRun::where() const {
  const nodes::Node::Share& share = head_->node().share();
  const int leader = head_->node().leader_rank();
  std::string text = "node " + std::to_string(share.rank) + " of " +
                     std::to_string(around_.options.nodes.nnodes) + " (" + own_address() + ")" +
                     (leads() ? " leads" : "") + ": " +
                     std::to_string(around_.options.nproc_per_node) + " of " +
                     std::to_string(share.world) + " workers";
  if (!leads())
    text += "; node " + std::to_string(leader) + " (" + leadership_->endpoint() + ") leads";
  if (share.store)
    text += "; the store is at " +
            endpoint_text(reached_from(own_address(), share.store->address), share.store->port);
  return text;
}

}  // namespace lockstep::launcher

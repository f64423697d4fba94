#include "launcher/nodes/nodes_run.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "control/preface.h"
#include "launcher/nodes/descriptors.h"
#include "launcher/nodes/root_cause.h"
#include "launcher/nodes/routes.h"
#include "launcher/output/host_name.h"
#include "launcher/processes/process.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

// What makes this node the same one when its agent is started again.
std::string node_name(const LaunchOptions& options) {
  const NodesOptions& nodes = options.nodes;
  const std::string rank = nodes.node_rank ? std::to_string(*nodes.node_rank) : "-";
  return options.run_id + "\n" + nodes.endpoint_host + "\n" + std::to_string(nodes.endpoint_port) +
         "\n" + rank;
}

// The run's number is told to its nodes alone.
std::string sign_of(const nodes::Node& node) {
  return "lockstep/probe/" + std::to_string(node.run());
}

}  // namespace

NodesRun::NodesRun(Around around)
    : around_(std::move(around)),
      clock_(is_loopback_host(around_.options.nodes.endpoint_host) ? CLOCK_MONOTONIC
                                                                   : CLOCK_BOOTTIME),
      party_{control::kProtocol, control::draw_incarnation(), LOCKSTEP_VERSION},
      lock_(node_name(around_.options)),
      store_(around_.loop) {}

NodesRun::~NodesRun() = default;

nodes::Row NodesRun::row() const {
  return {around_.options.nodes.node_rank,
          around_.options.nodes.endpoint_host,
          lock_.machine(),
          party_.incarnation,
          static_cast<std::uint32_t>(around_.options.nproc_per_node),
          around_.options.role,
          host_name()};
}

std::unique_ptr<coord::Head> NodesRun::make_head(const coord::plain::HostConfig& config) {
  auto head =
      std::make_unique<coord::plain::SeveralHosts>(config, rules_of(around_.options), row(), now());
  head_ = head.get();
  return head;
}

Status NodesRun::open() {
  LOCKSTEP_TRY(check_descriptors(around_.options, false));
  look_for_earlier();
  LOCKSTEP_ASSIGN(watcher_, Watcher::start(around_.options.nproc_per_node, clock_, lock_.fd()));
  LOCKSTEP_ASSIGN(timers_, control::Timers::open(around_.loop));
  leadership_ = std::make_unique<Leadership>(around_leadership());
  LOCKSTEP_TRY(leadership_->find());
  if (leadership_->meeting().on_this_machine)
    log_info("the endpoint " + around_.options.nodes.endpoint_host +
             " joins launchers of this machine alone");
  tell_twin();
  open_answers();
  return leadership_->open();
}

Leadership::Around NodesRun::around_leadership() {
  return {around_.options,
          around_.loop,
          *timers_,
          clock_,
          party_,
          row(),
          head_->node(),
          around_.look,
          [this] {
            if (!leads()) tell_missing();
            answers_->look();
          },
          [this] { failure_told_ = false; },
          [this](const nodes::LeaderWord& word) { tell_failure(word.final, word.rank); },
          [this](const star::message::Failed& failed) { elsewhere_ = failure_of(failed); },
          [this](UniqueFd client) { adopt(std::move(client)); },
          [this](const auto& connection, const star::Message& question) {
            answers_->come(connection, question);
          }};
}

// Workers of ours hold the lock, too: whether others did must be known before.
void NodesRun::look_for_earlier() {
  const bool held = lock_.is_held();
  if (started_ || !lock_.take()) return;
  head_->node().has_taken_lock();
  if (held || !watcher_) return;
  if (const Status status = watcher_->hold(lock_.fd()); !status.ok())
    head_->node().leave(exit_code(status.error().kind), status.error().message);
}

bool NodesRun::go_on() {
  nodes::Node& node = head_->node();
  const std::uint64_t version = node.version();
  look_for_earlier();
  if (const nodes::Attempt attempt = node.wish().serve; attempt != 0) serve(attempt);
  if (!leads()) node.not_reached(leadership_->trouble());
  const bool news = leadership_->talk();
  if (const nodes::Attempt attempt = node.wish().run; attempt != 0 && attempt != reaching_)
    reach(attempt);
  if (watcher_) watcher_->allow_until(node.may_live_until());
  return news || node.version() != version;
}

// As the leader does on its own console.
void NodesRun::tell_missing() {
  const std::string& missing = head_->node().waits_for();
  if (missing.empty()) tell_missing_at_ = Deadline::in(0s);
  if (missing.empty() || !tell_missing_at_.passed()) return;
  tell_missing_at_ = Deadline::in(30s);
  log_info("the leader waits for " + missing);
}

MasterPort::OnNode NodesRun::where_to_serve() const {
  const NodesOptions& options = around_.options.nodes;
  MasterPort::OnNode where;
  where.addresses = leadership_->own_addresses();
  where.share_store = around_.options.share_store;
  where.sign = sign_of(head_->node());
  const Meeting& meeting = leadership_->meeting();
  if (leads() && !meeting.on_this_machine) where.control_port = leadership_->port();
  // The endpoint's port, unless another agent of this machine leads there.
  if (options.store_port != 0)
    where.port = options.store_port;
  else if (options.is_static && meeting.taken.empty())
    where.port = options.endpoint_port;
  return where;
}

void NodesRun::serve(nodes::Attempt attempt) {
  leadership_->drop_store_clients();
  auto store = store_.begin(attempt, where_to_serve());
  if (!store.ok()) return fail(store.error(), true);
  head_->node().serves(*std::move(store));
}

// Where nobody serves before the workers do there is nothing to be reached.
void NodesRun::reach(nodes::Attempt attempt) {
  reaching_ = attempt;
  const nodes::Store store = *head_->node().share().store;
  const auto reached = [this, attempt](const Status& status) {
    probe_.reset();
    if (attempt == head_->node().wish().run) {
      started_ = started_ || status.ok();
      if (status.ok()) place_ = find_place();
      status.ok() ? head_->reached_store(attempt, where())
                  : fail(not_reached(status.error()), false);
    }
    around_.look();
  };
  if (!store.served) return reached({});
  StoreProbe::Plan plan;
  plan.address = reached_from(own_address(), store.address);
  plan.port = store.port;
  plan.sign = sign_of(head_->node());
  probe_ = StoreProbe::start(around_.loop, *timers_, std::move(plan), reached);
}

void NodesRun::fail(const Error& error, bool final) {
  nodes::Failure failure;
  failure.text = error.message;
  failure.code = exit_code(error.kind);
  failure.final = final;
  head_->node().workers_failed(std::move(failure), now());
}

Place NodesRun::find_place() {
  const nodes::Node::Share& share = head_->node().share();
  Place place;
  place.local_world_size = around_.options.nproc_per_node;
  place.group_rank = share.rank;
  place.group_world_size = around_.options.nodes.nnodes;
  place.role_base_rank = static_cast<int>(share.role_base);
  place.role_world_size = static_cast<int>(share.role_world);
  if (share.store) {
    place.master_addr = reached_from(own_address(), share.store->address);
    place.master_port = share.store->port;
    place.agent_store = share.store->served;
  }
  // The same in each attempt, unless this node has another address.
  if (const std::string own = own_address(); own != interface_of_) {
    interface_of_ = own;
    interface_ = interface_for_workers(own);
    if (!interface_.warning.empty()) log_warning(interface_.warning);
  }
  place.interface = interface_.name;
  place.marker = watcher_->marker();
  return place;
}

void NodesRun::ended(pid_t child) {
  if (watcher_) watcher_->ended(child);
}

bool NodesRun::watcher_event(const ChildEvent& event) {
  if (!keeps(event.pid)) return false;
  if (event.kind != ChildEvent::kExited && event.kind != ChildEvent::kKilled) return true;
  if (const Status status = watcher_->start_again(); !status.ok()) fail(status.error(), true);
  return true;
}

void NodesRun::leave() {
  if (watcher_) watcher_->allow_until(0);
  answers_->leave();
  leadership_->leave();
  const Deadline enough = Deadline::in(1s);
  while (!enough.passed() && (!leadership_->has_left() || !answers_->has_left()))
    around_.loop.run_once(Deadline::in(10ms));
}

}  // namespace lockstep::launcher

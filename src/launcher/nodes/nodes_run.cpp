#include "launcher/nodes/nodes_run.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/clock.h"
#include "base/endpoint.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "control/preface.h"
#include "launcher/nodes/root_cause.h"
#include "launcher/nodes/routes.h"
#include "launcher/output/host_name.h"
#include "launcher/processes/process.h"
#include "star/beat.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

constexpr int kMostRounds = 8;  // of words between the leader and its own node

// What makes this node the same one when its agent is started again.
std::string node_name(const LaunchOptions& options) {
  const NodesOptions& nodes = options.nodes;
  const std::string rank = nodes.node_rank ? std::to_string(*nodes.node_rank) : "-";
  return options.run_id + "\n" + nodes.endpoint_host + "\n" + std::to_string(nodes.endpoint_port) +
         "\n" + rank;
}

// For the leader to compare, and to tell: all of them may be longer than a message.
std::vector<std::string> shortened(const std::vector<std::string>& program) {
  constexpr std::size_t kMostBytes = 2048;
  std::vector<std::string> start;
  std::size_t bytes = 0;
  Sha256 all;
  for (const std::string& word : program) {
    all.update(word + '\n');
    bytes += word.size() + 1;
    if (bytes <= kMostBytes) start.push_back(word);
  }
  if (bytes > kMostBytes)
    start.push_back("… (" + std::to_string(program.size()) + " words, SHA-256 " +
                    all.hex().substr(0, 16) + ")");
  return start;
}

// The leader has two connections of a node that comes again, for a while.
Status check_descriptors(const LaunchOptions& options, bool leads) {
  constexpr std::size_t kOwn = 32;
  const auto nodes = static_cast<std::size_t>(options.nodes.nnodes);
  const auto workers = static_cast<std::size_t>(options.nproc_per_node);
  const std::size_t needed = (leads ? 2 * nodes : 0) + 2 * workers + kOwn;
  const std::size_t there = use_all_descriptors();
  if (there >= needed) return {};
  return Error{ErrorKind::kUnavailable,
               (leads ? "the launcher that leads " + std::to_string(nodes) + " nodes needs "
                      : "the launcher of " + std::to_string(workers) + " workers needs ") +
                   std::to_string(needed) + " descriptors, and may have " + std::to_string(there) +
                   " here; raise the limit: ulimit -Hn " + std::to_string(needed)};
}

// The run's number is told to its nodes alone.
std::string sign_of(const nodes::Node& node) {
  return "lockstep/probe/" + std::to_string(node.run());
}

}  // namespace

nodes::Rules rules_of(const LaunchOptions& options) {
  nodes::Rules rules;
  rules.nodes = options.nodes.nnodes;
  rules.max_restarts = options.max_restarts;
  if (options.nodes.limit) rules.limit = ns(*options.nodes.limit);
  // For clocks that differ by less than one part in 32.
  rules.grace = std::max(rules.grace, rules.limit / 32);
  rules.join_timeout = ns(options.nodes.join_timeout);
  rules.endpoint = endpoint_text(options.nodes.endpoint_host, options.nodes.endpoint_port);
  return rules;
}

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
  LOCKSTEP_ASSIGN(meeting_, find_meeting(around_.options.nodes));
  if (meeting_.on_this_machine)
    log_info("the endpoint " + around_.options.nodes.endpoint_host +
             " joins launchers of this machine alone");
  tell_twin();
  open_answers();
  if (meeting_.leads)
    LOCKSTEP_TRY(lead());
  else
    dial();
  return {};
}

star::message::Hello NodesRun::hello() const {
  const LaunchOptions& options = around_.options;
  star::message::Hello hello = hello_of(options);
  if (options.nodes.limit || meeting_.leads) hello.limit_ns = rules_of(options).limit;
  hello.program = shortened(options.program);
  return hello;
}

Status NodesRun::lead() {
  LOCKSTEP_TRY(check_descriptors(around_.options, true));
  star::Hub::Plan plan;
  plan.rules = rules_of(around_.options);
  plan.own = row();
  plan.run = control::draw_incarnation();
  record_.emplace(around_.options.run_id + "\n" + listens_at(around_.options.nodes, meeting_),
                  around_.options.program);
  plan.before = record_->take(around_.options.max_restarts);
  plan.self = hello();
  plan.party = party_;
  plan.clock = clock_;
  if (meeting_.from) plan.advertised = meeting_.from->host();
  plan.where = leads_at(around_.options.nodes, meeting_);
  star::Hub::Events events;
  events.news = [this] {
    record_->touch();
    answers_->look();
    around_.look();
  };
  events.keep = [this](const nodes::Leader::Record& record) {
    // Another leader may go on from it as long as another attempt may begin.
    const auto most = static_cast<nodes::Attempt>(around_.options.max_restarts);
    record.attempt <= most ? record_->keep(record) : record_->remove();
  };
  events.asked = [this](const auto& connection, const star::Message& question) {
    answers_->come(connection, question);
  };
  events.failed = [this](const star::message::Failed& failed) {
    elsewhere_ = failure_of(failed);
    pass_on(failed);
  };
  if (!meeting_.on_this_machine)
    events.store = [this](UniqueFd client) { adopt(std::move(client)); };
  LOCKSTEP_ASSIGN(hub_, star::Hub::open(around_.loop, *timers_, std::move(meeting_.sockets),
                                        std::move(plan), std::move(events)));
  beat_.cancel();  // the hub has its own
  return {};
}

void NodesRun::dial() {
  const NodesOptions& options = around_.options.nodes;
  star::Spoke::Plan plan{
      options.endpoint_host, options.endpoint_port, meeting_.on_this_machine,       hello(), party_,
      meeting_.tls,          meeting_.from,         rules_of(around_.options).limit};
  plan.clock = clock_;
  star::Spoke::Events events;
  events.open = [this] {
    said_ = 0;
    failure_told_ = false;
    around_.look();
  };
  events.word = [this](const nodes::LeaderWord& word) {
    head_->node().heard(word, now());
    tell_failure(word.final, word.rank);  // before the word that answers
    around_.look();
  };
  events.failed = [this](const star::message::Failed& failed) { elsewhere_ = failure_of(failed); };
  events.closed = [this] {
    head_->node().closed(now());
    around_.look();
  };
  events.advice = [this](const control::Failure& failure) {
    return who_leads(around_.options.nodes, meeting_, failure);
  };
  events.tries_on = [this] { return head_->node().tries_on(now()); };
  events.refused_here = [this] { look_again_ = timers_->in(0ms, [this] { look_again(); }); };
  events.refused = [this](const nodes::Final& why) {
    head_->node().leave(why.code, for_terminal(why.text));
    around_.look();
  };
  spoke_ =
      std::make_unique<star::Spoke>(around_.loop, *timers_, std::move(plan), std::move(events));
  wait_for_beat();
}

// The endpoint's name leads to this machine, and nobody leads.
void NodesRun::look_again() {
  Status done = launcher::look_again(around_.options.nodes, meeting_);
  if (done.ok() && !meeting_.leads) return;
  if (done.ok()) done = lead();
  if (done.ok())
    spoke_.reset();
  else
    head_->node().leave(exit_code(done.error().kind), done.error().message);
  around_.look();
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
  if (spoke_) node.not_reached(spoke_->trouble());
  const bool news = talk();
  if (const nodes::Attempt attempt = node.wish().run; attempt != 0 && attempt != reaching_)
    reach(attempt);
  if (watcher_) watcher_->allow_until(node.may_live_until());
  return news || node.version() != version;
}

// True: the leader has said something new.
bool NodesRun::talk() {
  nodes::Node& node = head_->node();
  if (spoke_) {
    if (std::exchange(said_, node.version()) != node.version()) spoke_->say(node.word(now()));
    return false;
  }
  bool news = false;
  for (int round = 0; round < kMostRounds; ++round) {
    const std::uint64_t version = node.version(), leaders = hub_->leader().version();
    const nodes::LeaderWord word = hub_->exchange(node.word(now()));
    node.heard(word, now());
    tell_failure(word.final, word.rank);
    if (node.version() == version && hub_->leader().version() == leaders) break;
    news = true;
  }
  return news;
}

void NodesRun::wait_for_beat() {
  const int count = around_.options.nodes.nnodes;
  beat_ = timers_->in(star::beat(head_->node().limit(), count), [this] {
    said_ = 0;
    tell_missing();
    answers_->look();
    around_.look();
    wait_for_beat();
  });
}

// As the leader does on its own console.
void NodesRun::tell_missing() {
  const std::string& missing = head_->node().waits_for();
  if (missing.empty()) tell_missing_at_ = Deadline::in(0s);
  if (missing.empty() || !tell_missing_at_.passed()) return;
  tell_missing_at_ = Deadline::in(30s);
  log_info("the leader waits for " + missing);
}

std::vector<std::string> NodesRun::own_addresses() const {
  return hub_ ? hub_->own_addresses() : std::vector{spoke_->local_address()};
}

MasterPort::OnNode NodesRun::where_to_serve() const {
  const NodesOptions& options = around_.options.nodes;
  MasterPort::OnNode where;
  where.addresses = own_addresses();
  where.share_store = around_.options.share_store;
  where.sign = sign_of(head_->node());
  if (hub_ && !meeting_.on_this_machine) where.control_port = options.endpoint_port;
  // The endpoint's port, unless another agent of this machine leads there.
  if (options.store_port != 0)
    where.port = options.store_port;
  else if (options.is_static && meeting_.taken.empty())
    where.port = options.endpoint_port;
  return where;
}

void NodesRun::serve(nodes::Attempt attempt) {
  if (hub_) hub_->drop_store_clients();
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
  beat_.cancel();
  if (record_) record_->remove();
  answers_->leave();
  if (hub_) hub_->leave();
  if (spoke_) spoke_->leave();
  const Deadline enough = Deadline::in(1s);
  while (!enough.passed() &&
         ((hub_ && !hub_->has_left()) || (spoke_ && !spoke_->has_left()) || !answers_->has_left()))
    around_.loop.run_once(Deadline::in(10ms));
}

}  // namespace lockstep::launcher

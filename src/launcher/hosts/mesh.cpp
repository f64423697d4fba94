#include "launcher/hosts/mesh.h"

#include <chrono>
#include <utility>
#include <variant>

#include "base/clock.h"
#include "base/endpoint.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/random_hex.h"
#include "base/text.h"
#include "control/preface.h"
#include "control/sockets.h"
#include "star/plausible.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

// Abstract sockets are named by a number: this one is no endpoint's.
constexpr std::uint32_t kBeyondPorts = 65'536;

}  // namespace

Mesh::Mesh(Loop& loop, control::Timers& timers, const LaunchOptions& options,
           std::chrono::nanoseconds limit, Events events)
    : loop_(loop),
      timers_(timers),
      options_(options),
      limit_(limit),
      events_(std::move(events)),
      party_{control::kProtocol, control::draw_incarnation(), LOCKSTEP_VERSION} {}

Mesh::~Mesh() = default;

Status Mesh::find() {
  if (!options_.nodes.places.empty())
    return misuse("--rdzv-endpoint '" + text_of(options_.nodes.places) +
                  "' is a list, which is for programs that do not link Lockstep; the launchers of "
                  "this one elect another leader by themselves: give one endpoint, " +
                  options_.nodes.places.front().host);
  LOCKSTEP_ASSIGN(meeting_, find_meeting(options_.nodes));
  return {};
}

Status Mesh::open(const UniqueFd& links) {
  if (const auto address = control::Address::local_of(links.get()))
    link_port_ = static_cast<std::uint16_t>(address->port());
  LOCKSTEP_TRY(answer_others());
  if (meeting_.leads) return lead();
  dial();
  return {};
}

// At the endpoint all come there.
Status Mesh::answer_others() {
  if (meeting_.leads) return {};
  if (meeting_.on_this_machine) {
    port_ = kBeyondPorts + link_port_;  // which this agent holds
    LOCKSTEP_ASSIGN(door_.socket, control::listen_on_this_machine(static_cast<int>(port_)));
  } else {
    auto socket = meeting_.from
                      ? control::listen_at(*control::Address::numeric(meeting_.from->host(), 0))
                      : control::listen_everywhere(0);
    LOCKSTEP_ASSIGN(door_.socket, std::move(socket));
    port_ = static_cast<std::uint32_t>(control::Address::local_of(door_.socket.get())->port());
  }
  door_.tls = meeting_.tls;
  door_.on_this_machine = meeting_.on_this_machine;
  return {};
}

std::uint64_t Mesh::limit_ns() const {
  return is_formed() ? formed_.limit_ns : static_cast<std::uint64_t>(limit_.count());
}

star::message::Hello Mesh::hello() const {
  star::message::Hello hello = hello_of(options_);
  if (options_.nodes.limit || meeting_.leads || is_formed()) hello.limit_ns = limit_ns();
  hello.linked = true;
  if (const std::string& path = options_.nodes.lock_directory; !path.empty())
    hello.tie_break = "lockfile=" + path;
  return hello;
}

star::message::Claim Mesh::claim() const {
  return {options_.nodes.node_rank,
          party_.incarnation,
          static_cast<std::uint32_t>(options_.nproc_per_node),
          link_port_,
          port_,
          formed_.run};
}

star::Gathering::Events Mesh::gathering_events() {
  star::Gathering::Events events;
  events.formed = [this] { form(gathering_->formed_for(gathering_->own())); };
  events.open = [this](int host) { opened(static_cast<std::size_t>(host)); };
  events.talk = [this](int host, const std::string& frame) {
    events_.talk(static_cast<std::size_t>(host), frame);
  };
  events.closed = [this](int host) { ended(static_cast<std::size_t>(host)); };
  events.has_run = [this](const std::string& who) {
    events_.refused(exit_code(ErrorKind::kUnavailable),
                    "the run goes on without this node: " + for_terminal(who) +
                        " takes part in it. A launcher that comes later cannot take part: end "
                        "the run and start all launchers again, or wait for its end");
  };
  return events;
}

star::Gathering::Plan Mesh::gathering_plan() const {
  star::Gathering::Plan plan;
  plan.hosts = options_.nodes.nnodes;
  plan.own = claim();
  plan.self = hello();
  plan.party = party_;
  return plan;
}

Status Mesh::lead() {
  star::Gathering::Plan plan = gathering_plan();
  plan.secret = random_hex(64);
  LOCKSTEP_ASSIGN(gathering_, star::Gathering::open(loop_, timers_, std::move(meeting_.sockets),
                                                    std::move(plan), gathering_events()));
  return {};
}

star::Spoke::Plan Mesh::spoke_plan(const std::string& host, int port) const {
  return {host,          port,      meeting_.on_this_machine, hello(), party_, meeting_.tls,
          meeting_.from, limit_ns()};
}

void Mesh::dial() {
  star::Spoke::Events events;
  events.open = [this] {
    to_endpoint_->tell(claim());
    if (is_formed()) opened(endpoint_);
  };
  events.closed = [this] { ended(endpoint_); };
  events.advice = [this](const control::Failure& failure) {
    return is_formed() ? "" : who_leads(options_.nodes, meeting_, failure);
  };
  events.refused = [this](const nodes::Final& why) {
    if (!is_formed()) events_.refused(why.code, for_terminal(why.text));
  };
  events.refused_here = [this] { look_again_ = timers_.in(0ms, [this] { look_again(); }); };
  events.of_hosts = [this](const star::Message& message) {
    if (const auto* formed = std::get_if<star::message::Formed>(&message)) form(*formed);
    const auto* talk = std::get_if<star::message::Talk>(&message);
    if (talk != nullptr && is_formed()) events_.talk(endpoint_, talk->frame);
  };
  to_endpoint_ = std::make_unique<star::Spoke>(
      loop_, timers_, spoke_plan(options_.nodes.endpoint_host, options_.nodes.endpoint_port),
      std::move(events));
}

// The endpoint's name leads to this machine, and nobody leads.
void Mesh::look_again() {
  Status done = launcher::look_again(options_.nodes, meeting_);
  if (done.ok() && !meeting_.leads) return;
  if (done.ok()) {
    to_endpoint_.reset();
    door_ = {};
    port_ = 0;
    done = lead();
  }
  if (!done.ok()) events_.refused(exit_code(done.error().kind), done.error().message);
}

// On a connection that is made again it is said once more.
void Mesh::form(const star::message::Formed& formed) {
  if (is_formed()) return;
  const auto hosts = static_cast<std::size_t>(options_.nodes.nnodes);
  if (const std::string doubt = star::implausible(formed, hosts); !doubt.empty())
    return events_.refused(exit_code(ErrorKind::kBadData),
                           "the launcher at the endpoint says what cannot be true: " + doubt);
  formed_ = formed;
  for (std::size_t h = 0; h < hosts; ++h)
    if (formed_.hosts[h].address.empty()) endpoint_ = h;
  if (to_endpoint_) to_endpoint_->be_quiet();
  if (!meeting_.leads) reach_others();
  events_.formed();
  if (!meeting_.leads) opened(endpoint_);
}

void Mesh::reach_others() {
  star::Gathering::Plan plan = gathering_plan();
  plan.formed = formed_;
  std::vector<star::Hub::ListenSocket> sockets;
  sockets.push_back(std::move(door_));
  auto made = star::Gathering::open(loop_, timers_, std::move(sockets), std::move(plan),
                                    gathering_events());
  if (!made.ok()) return events_.refused(exit_code(made.error().kind), made.error().message);
  gathering_ = *std::move(made);
  for (std::size_t h = 0; h < self(); ++h)
    if (h != endpoint_) spokes_[h] = spoke_to(h);
}

std::unique_ptr<star::Spoke> Mesh::spoke_to(std::size_t host) {
  star::Spoke::Events events;
  events.open = [this, host] {
    spokes_[host]->tell(claim());
    opened(host);
  };
  events.closed = [this, host] { ended(host); };
  events.refused = [host](const nodes::Final& why) {  // it will be silent
    log_debug("node " + std::to_string(host) + ": " + why.text);
  };
  events.of_hosts = [this, host](const star::Message& message) {
    if (const auto* talk = std::get_if<star::message::Talk>(&message))
      events_.talk(host, talk->frame);
  };
  const int port = static_cast<int>(formed_.hosts[host].agent_port);
  auto made = std::make_unique<star::Spoke>(loop_, timers_, spoke_plan(address_of(host), port),
                                            std::move(events));
  made->be_quiet();
  made->expect_words(false);
  return made;
}

// The endpoint's is the one that it was dialled at; within the machine there is none.
std::string Mesh::address_of(std::size_t host) const {
  const std::string& seen = formed_.hosts[host].address;
  if (!seen.empty()) return seen;
  return to_endpoint_ && !to_endpoint_->leader_address().empty() ? to_endpoint_->leader_address()
                                                                 : "127.0.0.1";
}

std::string Mesh::missing() const {
  if (meeting_.leads) return gathering_ ? gathering_->missing() : "";
  const bool is_there = to_endpoint_ && to_endpoint_->is_open();
  return is_there ? "other nodes (the launcher at " +
                        endpoint_text(options_.nodes.endpoint_host, options_.nodes.endpoint_port) +
                        " names them)"
                  : "";
}

void Mesh::opened(std::size_t host) {
  has_[host] = true;
  events_.open(host);
}

void Mesh::ended(std::size_t host) {
  if (is_formed() && std::exchange(has_[host], false)) events_.closed(host);
}

star::Spoke* Mesh::spoke(std::size_t host) const {
  if (host == endpoint_ && to_endpoint_) return to_endpoint_.get();
  const auto found = spokes_.find(host);
  return found == spokes_.end() ? nullptr : found->second.get();
}

bool Mesh::has(std::size_t host) const {
  const auto found = has_.find(host);
  return found != has_.end() && found->second;
}

Status Mesh::say(std::size_t host, const std::string& frame) {
  if (frame.size() > star::message::kMostTalkBytes)
    return Error{ErrorKind::kInternal, "what this launcher has to tell node " +
                                           std::to_string(host) + " has " +
                                           std::to_string(frame.size()) + " bytes, the most are " +
                                           std::to_string(star::message::kMostTalkBytes) +
                                           ": start the run with fewer workers or nodes"};
  if (star::Spoke* by = spoke(host))
    by->tell(star::message::Talk{frame});
  else if (gathering_)
    gathering_->say(static_cast<int>(host), frame);
  return {};
}

void Mesh::expect_words_of(std::size_t leader) {
  const bool all = leader == self();
  if (to_endpoint_) to_endpoint_->expect_words(all || leader == endpoint_);
  for (auto& [host, by] : spokes_) by->expect_words(all || host == leader);
}

void Mesh::drop(std::size_t host) {
  if (star::Spoke* by = spoke(host)) by->leave();
}

void Mesh::tell_at_endpoint() {
  if (notice_) return;
  const auto& nodes = options_.nodes;
  notice_ = std::make_unique<star::Notice>(
      loop_, timers_, spoke_plan(nodes.endpoint_host, nodes.endpoint_port), claim());
}

void Mesh::leave() {
  notice_.reset();
  if (gathering_) gathering_->leave();
  if (to_endpoint_) to_endpoint_->leave();
  for (auto& [host, by] : spokes_) by->leave();
}

bool Mesh::has_left() const {
  if (gathering_ && !gathering_->has_left()) return false;
  if (to_endpoint_ && !to_endpoint_->has_left()) return false;
  return std::ranges::all_of(spokes_, [](const auto& one) { return one.second->has_left(); });
}

}  // namespace lockstep::launcher

#include "launcher/nodes/leadership.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/endpoint.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "control/preface.h"
#include "launcher/nodes/descriptors.h"
#include "launcher/nodes/root_cause.h"
#include "launcher/output/host_name.h"
#include "star/beat.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

constexpr int kMostRounds = 8;  // of words between the leader and its own node

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

}  // namespace

nodes::Rules rules_of(const LaunchOptions& options) {
  const NodesOptions& several = options.nodes;
  nodes::Rules rules;
  rules.nodes = several.nnodes;
  rules.max_restarts = options.max_restarts;
  if (several.limit) rules.limit = ns(*several.limit);
  // For clocks that differ by less than one part in 32.
  rules.grace = std::max(rules.grace, rules.limit / 32);
  rules.join_timeout = ns(several.join_timeout);
  rules.in_turn = !several.places.empty();
  rules.endpoint = rules.in_turn ? text_of(several.places)
                                 : endpoint_text(several.endpoint_host, several.endpoint_port);
  return rules;
}

Leadership::Leadership(Around around) : around_(std::move(around)), here_(around_.options.nodes) {}

Leadership::~Leadership() = default;

Status Leadership::find() {
  int own = -1;
  if (in_turn()) {
    LOCKSTEP_ASSIGN(own, find_own_place(around_.options.nodes));
    if (own >= 0) LOCKSTEP_TRY(check_descriptors(around_.options, true));
    here_ = at(std::max(own, 0));
    const nodes::Rules rules = rules_of(around_.options);
    succession_ = std::make_unique<nodes::Succession>(
        static_cast<int>(around_.options.nodes.places.size()), own,
        nodes::Succession::Times{rules.limit, rules.redial}, now());
  }
  LOCKSTEP_ASSIGN(meeting_, find_meeting(here_));
  if (own >= 0 && std::ranges::any_of(records_here(), &LeaderRecord::is_there))
    around_.node.has_led_before();
  return {};
}

Status Leadership::open() {
  if (in_turn()) {
    open_in_turn();
  } else if (meeting_.leads) {
    LOCKSTEP_TRY(lead());
  } else {
    dial(here_);
  }
  return {};
}

star::message::Hello Leadership::hello() const {
  const LaunchOptions& options = around_.options;
  star::message::Hello hello = hello_of(options);
  // Of a list each may lead next, by its own.
  if (options.nodes.limit || meeting_.leads || in_turn()) hello.limit_ns = rules_of(options).limit;
  hello.program = shortened(options.program);
  return hello;
}

Status Leadership::lead() {
  LOCKSTEP_TRY(check_descriptors(around_.options, true));
  star::Hub::Plan plan;
  plan.rules = rules_of(around_.options);
  plan.rules.endpoint = endpoint_text(here_.endpoint_host, here_.endpoint_port);
  plan.own = around_.row;
  // What was said to it when it led before is no answer to what it says now.
  if (in_turn()) plan.own.incarnation = control::draw_incarnation();
  plan.run = control::draw_incarnation();
  record_.emplace(around_.options.run_id + "\n" + listens_at(here_, meeting_),
                  around_.options.program);
  plan.before = record_->take(around_.options.max_restarts);
  plan.self = hello();
  plan.party = around_.party;
  plan.clock = around_.clock;
  if (meeting_.from) plan.advertised = meeting_.from->host();
  plan.where = leads_at(here_, meeting_);
  LOCKSTEP_ASSIGN(hub_, star::Hub::open(around_.loop, around_.timers, std::move(meeting_.sockets),
                                        std::move(plan), hub_events()));
  meeting_.sockets.clear();
  beat_.cancel();  // the hub has its own
  return {};
}

star::Hub::Events Leadership::hub_events() {
  star::Hub::Events events;
  events.news = [this] {
    if (record_) record_->touch();
    around_.beat();
    around_.look();
  };
  events.keep = [this](const nodes::Leader::Record& record) {
    // Another leader may go on from it as long as another attempt may begin.
    const auto most = static_cast<nodes::Attempt>(around_.options.max_restarts);
    record.attempt <= most ? record_->keep(record) : record_->remove();
  };
  events.asked = around_.asked;
  events.failed = [this](const star::message::Failed& failed) {
    around_.failed(failed);
    tell(failed);
  };
  if (!meeting_.on_this_machine) events.store = around_.store;
  return events;
}

void Leadership::dial(const NodesOptions& at) {
  star::Spoke::Plan plan{
      at.endpoint_host, at.endpoint_port, meeting_.on_this_machine,       hello(), around_.party,
      meeting_.tls,     meeting_.from,    rules_of(around_.options).limit};
  plan.clock = around_.clock;
  spoke_ =
      std::make_unique<star::Spoke>(around_.loop, around_.timers, std::move(plan), spoke_events());
  wait_for_beat();
}

star::Spoke::Events Leadership::spoke_events() {
  star::Spoke::Events events;
  events.open = [this, place = target_] {
    target_ = place;
    said_ = 0;
    around_.met();
    around_.look();
  };
  events.word = [this](const nodes::LeaderWord& word) {
    around_.node.heard(word, now());
    around_.heard(word);  // before the word that answers
    around_.look();
  };
  events.failed = around_.failed;
  events.closed = [this] {
    around_.node.closed(now());
    look_from_ = Deadline::in(kStart);
    if (in_turn()) look_soon(0ms);
    around_.look();
  };
  events.advice = [this](const control::Failure& failure) { return advice(failure); };
  events.tries_on = [this] { return around_.node.tries_on(now()); };
  events.refused_here = [this] {
    if (!in_turn()) look_again_ = around_.timers.in(0ms, [this] { look_again(); });
  };
  events.refused = [this](const nodes::Final& why) {
    if (in_turn()) {
      target_ = -1;  // it may dial no more: a leader there is followed anew
      return refused(why, false);
    }
    around_.node.leave(why.code, for_terminal(why.text));
    around_.look();
  };
  return events;
}

std::string Leadership::advice(const control::Failure& failure) const {
  return in_turn() ? others_are_looked_at() : who_leads(here_, meeting_, failure);
}

// The endpoint's name leads to this machine, and nobody leads.
void Leadership::look_again() {
  Status done = launcher::look_again(here_, meeting_);
  if (done.ok() && !meeting_.leads) return;
  if (done.ok()) done = lead();
  if (done.ok())
    spoke_.reset();
  else
    around_.node.leave(exit_code(done.error().kind), done.error().message);
  around_.look();
}

bool Leadership::talk() {
  nodes::Node& node = around_.node;
  if (!hub_) {
    if (spoke_ && std::exchange(said_, node.version()) != node.version())
      spoke_->say(node.word(now()));
    return false;
  }
  bool news = false;
  for (int round = 0; round < kMostRounds; ++round) {
    const std::uint64_t version = node.version(), leaders = hub_->leader().version();
    const nodes::LeaderWord word = hub_->exchange(node.word(now()));
    node.heard(word, now());
    around_.heard(word);
    if (node.version() == version && hub_->leader().version() == leaders) break;
    news = true;
  }
  return news;
}

void Leadership::wait_for_beat() {
  const int count = around_.options.nodes.nnodes;
  beat_ = around_.timers.in(star::beat(around_.node.limit(), count), [this] {
    said_ = 0;
    around_.beat();
    around_.look();
    wait_for_beat();
  });
}

void Leadership::tell(star::message::Failed failed) {
  if (!hub_) {
    if (spoke_) spoke_->tell(failed);
    return;
  }
  shorten(failed, most_text(around_.options.nodes.nnodes));
  hub_->tell_all(failed);
}

void Leadership::drop_store_clients() {
  if (hub_) hub_->drop_store_clients();
}

std::string Leadership::endpoint() const {
  const NodesOptions there = !hub_ && target_ >= 0 ? at(target_) : here_;
  return endpoint_text(there.endpoint_host, there.endpoint_port);
}

std::vector<std::string> Leadership::own_addresses() const {
  if (hub_) return hub_->own_addresses();
  return {spoke_ ? spoke_->local_address() : "127.0.0.1"};
}

std::string Leadership::trouble() const { return spoke_ ? spoke_->trouble() : ""; }

void Leadership::leave() {
  beat_.cancel();
  turn_.cancel();
  if (lookout_) lookout_->rest();
  if (record_) record_->remove();
  if (in_turn() && !hub_ && around_.node.word(now()).final)
    for (LeaderRecord& record : records_here()) record.remove_what_is_left();
  if (hub_) hub_->leave();
  if (spoke_) spoke_->leave();
}

bool Leadership::has_left() const {
  return (!hub_ || hub_->has_left()) && (!spoke_ || spoke_->has_left()) &&
         (!old_hub_ || old_hub_->has_left());
}

}  // namespace lockstep::launcher

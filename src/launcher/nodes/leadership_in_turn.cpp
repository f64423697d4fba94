// Of a list of endpoints: whether this launcher leads, whom it follows, and when it gives up.
#include <algorithm>
#include <chrono>
#include <utility>

#include "base/endpoint.h"
#include "base/log.h"
#include "base/text.h"
#include "launcher/nodes/leadership.h"
#include "star/agreement.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kRefusedFor = 3s;
constexpr auto kTaken = 1s;  // before the port is tried again, which is somebody's
constexpr auto kDecide = 50ms, kDecideWhereAllIsWell = 250ms;
// Without a leader, for 2 L; then, and of one that has not all nodes yet.
constexpr auto kLook = 200ms, kLookSeldom = 1000ms;

}  // namespace

NodesOptions Leadership::at(int place) const {
  return with_endpoint(around_.options.nodes, static_cast<std::size_t>(place));
}

std::string Leadership::others_are_looked_at() const {
  std::string others;
  for (const MeetingPlace& place : around_.options.nodes.places)
    if (const std::string one = endpoint_text(place.host, place.port); one != endpoint())
      others += (others.empty() ? "" : ", ") + one;
  return "; nobody leads at " + others + " either";
}

void Leadership::open_in_turn() {
  lookout_ = lookout();
  if (succession_->own() != 0) {
    follow(0);
  } else {
    wait_for_beat();
    look_soon(0ms);
  }
}

std::unique_ptr<star::Lookout> Leadership::lookout() {
  star::Lookout::Plan plan;
  for (const MeetingPlace& place : around_.options.nodes.places)
    plan.places.push_back({place.host, place.port});
  plan.on_this_machine = meeting_.on_this_machine;
  plan.self = hello();
  plan.party = around_.party;
  plan.tls = meeting_.tls;
  plan.from = meeting_.from;
  star::Lookout::Events events;
  events.nobody = [this](int place, bool here) {
    if (here && succession_->own() < 0 && around_.options.nodes.is_host != false) {
      succession_->may_lead_at(place);  // a pod's name is known only now
      here_ = at(place);
    }
    succession_->found_nobody(place, now());
    look_soon(0ms);
  };
  events.silence = [this](int place) { succession_->found_silence(place); };
  events.lead = [this](const nodes::Lead& lead) {
    succession_->found(lead, now());
    look_soon(0ms);
  };
  events.refused = [this](const star::message::Refused& refused) {
    if (hub_) return;  // the other one is told the same
    this->refused({star::exit_code_of(refused.reason), refused.text},
                  refused.option == star::kEndpointsOption);
  };
  return std::make_unique<star::Lookout>(around_.loop, around_.timers, std::move(plan),
                                         std::move(events));
}

// Never from within what it may destroy.
void Leadership::look_soon(std::chrono::milliseconds in) {
  turn_ = around_.timers.in(in, [this] { look_around(); });
}

void Leadership::look_around() {
  hub_ ? go_on_leading() : go_on_without();
  if (old_hub_ && old_hub_->has_left()) old_hub_.reset();
  look_soon(succession_->looks() ? kDecide : kDecideWhereAllIsWell);
}

void Leadership::go_on_leading() {
  const nodes::Lead own{succession_->own(), hub_->leader().attempt(), hub_->leader().is_active()};
  if (own.active) {
    succession_->look_no_more();
    return lookout_->rest();
  }
  succession_->look(now(), now());
  lookout_->look(kLookSeldom, own.place);
  if (succession_->yields(own)) yield();
}

// For who has a run an option that differs is another run's. Its own next leader may have to wait
// for L; likewise where the list is another one, whose run may have nothing to do with this one.
void Leadership::refused(const nodes::Final& why, bool may_be_foreign) {
  const nodes::Node& node = around_.node;
  const bool has_run = node.run() != 0, is_option = why.code == exit_code(ErrorKind::kUsage);
  if (has_run && is_option) return;
  const std::chrono::nanoseconds limit(node.limit());
  std::chrono::nanoseconds time = kRefusedFor;
  if (has_run || may_be_foreign)
    time += limit;
  else if (is_option)  // before this one leads by its own
    time = std::min(time, limit / 2);
  if (!refused_) refused_until_ = Deadline::in(time);
  refused_ = why;
}

void Leadership::go_on_without() {
  nodes::Node& node = around_.node;
  const bool is_led = node.is_led(now()), is_open = spoke_ && spoke_->is_open();
  if (is_open && is_led) {
    look_from_ = Deadline::in(kStart);
    refused_.reset();
    succession_->look_no_more();
    return lookout_->rest();
  }
  if (!look_from_.passed() || node.leaves() || node.ending()) return;
  succession_->look(node.heard_at(), now());
  lookout_->look(now() < node.heard_at() + 2 * node.limit() ? kLook : kLookSeldom, -1);
  if (!is_led && succession_->may_lead(now())) return take_over();
  if (const auto place = succession_->whom_to_follow(target_, is_led)) return follow(*place);
  if (!refused_ || !refused_until_.passed() || is_open) return;
  node.leave(refused_->code, for_terminal(refused_->text));
  around_.look();
}

// The port may be another program's, or of another launcher of this machine, which then leads.
void Leadership::take_over() {
  Status done = launcher::look_again(here_, meeting_);
  // With --local-addr it listens at several addresses.
  const bool is_taken = !done.ok() && done.error().kind == ErrorKind::kUnavailable;
  if (is_taken && !std::exchange(taken_told_, true))
    log_warning("this launcher cannot lead at " +
                endpoint_text(here_.endpoint_host, here_.endpoint_port) + ": " +
                done.error().message +
                "; it is tried again, and the launcher at the next place may lead");
  if (is_taken || (done.ok() && !meeting_.leads)) {
    meeting_.leads = false;
    meeting_.sockets.clear();
    look_from_ = Deadline::in(kTaken);
    return;
  }
  if (done.ok()) done = lead();
  if (!done.ok()) {
    around_.node.leave(exit_code(done.error().kind), done.error().message);
    return around_.look();
  }
  succession_->look_no_more();
  lookout_->rest();
  if (spoke_) spoke_->leave();
  old_spoke_ = std::move(spoke_);
  if (around_.node.run() != 0 || succession_->own() != 0)
    log_info("nobody leads: this launcher does, at " + endpoint());
  target_ = -1;
  refused_.reset();
  around_.node.looks_at(endpoint());
  around_.met();
  around_.look();
}

void Leadership::yield() {
  const int place = *succession_->whom_to_follow(-1, false);
  log_info("the launcher at " + endpoint_text(at(place).endpoint_host, at(place).endpoint_port) +
           " leads this run, too, and goes on: this one leads no more");
  record_->remove();
  record_.reset();
  hub_->leave();
  old_hub_ = std::move(hub_);
  meeting_.leads = false;
  around_.node.closed(now());
  follow(place);
}

void Leadership::follow(int place) {
  if (spoke_) spoke_->leave();
  old_spoke_ = std::move(spoke_);
  target_ = place;
  refused_.reset();
  look_from_ = Deadline::in(kStart);
  around_.node.looks_at(endpoint());
  dial(at(place));
  look_soon(kDecide);
}

// One of them is that of a leader at this one's place.
std::vector<LeaderRecord> Leadership::records_here() const {
  std::vector<LeaderRecord> records;
  if (succession_->own() < 0) return records;
  for (const std::string& where : would_listen_at(here_, meeting_))
    records.emplace_back(around_.options.run_id + "\n" + where, around_.options.program);
  return records;
}

}  // namespace lockstep::launcher

#include "star/spoke.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/log.h"
#include "lockstep/status.h"
#include "star/agreement.h"
#include "star/beat.h"
#include "star/plausible.h"

namespace lockstep::star {
namespace {

using namespace std::chrono_literals;
using control::Connection;
using control::Outcome;

// At first often: what is there again within a second has cost nothing.
constexpr auto kFirstPause = 20ms, kShortPause = 100ms, kLongestPause = 500ms;
constexpr auto kNotOursFor = 5s;

// Who answers is no leader that we could be a node of, and will not become one by waiting.
bool is_not_ours(Outcome outcome) {
  switch (outcome) {
    case Outcome::kNotLockstep:
    case Outcome::kWrongKey:
    case Outcome::kKeyMissing:
    case Outcome::kOtherVersion:
    case Outcome::kOtherUser:
      return true;
    default:
      return false;
  }
}

}  // namespace

Spoke::Spoke(Loop& loop, control::Timers& timers, Plan plan, Events events)
    : loop_(loop),
      timers_(timers),
      plan_(std::move(plan)),
      events_(std::move(events)),
      limit_ns_(plan_.limit_ns),
      heard_by_(Deadline::in(0s)),
      tell_at_(Deadline::in(kFirstLine)),
      often_until_(Deadline::in(1s)) {
  dial();
  watch();
}

Spoke::~Spoke() = default;

void Spoke::dial() {
  control::Dial::Plan plan;
  plan.host = plan_.host;
  plan.port = plan_.port;
  plan.on_this_machine = plan_.on_this_machine;
  plan.self = plan_.party;
  plan.tls = plan_.tls;
  plan.run_id = plan_.self.run_id;
  plan.from = plan_.from;
  dial_ = control::Dial::start(
      loop_, timers_, std::move(plan),
      [this](auto connection, const control::Failure& failure) { dialled(connection, failure); });
}

void Spoke::dialled(const std::shared_ptr<Connection>& connection,
                    const control::Failure& failure) {
  if (!connection) return failed(failure);
  connection_ = connection;
  heard_by_ = Deadline::in(5s);
  Connection::Events events;
  events.frame = [this](std::string_view frame) { hear(frame); };
  events.ended = [this](const control::Failure& end) { lost(end); };
  connection_->hear(std::move(events));
  message::Hello hello = plan_.self;
  if (connection_->remote()) leader_address_ = connection_->remote()->host();
  if (connection_->local()) local_address_ = hello.local_address = connection_->local()->host();
  if (const auto text = encode(hello); text.ok()) return connection_->send(*text);
  events_.refused({exit_code(ErrorKind::kUsage),
                   "the program's arguments are longer than what can be told to other nodes"});
}

void Spoke::failed(const control::Failure& failure) {
  trouble_ = failure.text + events_.advice(failure);
  if (!is_not_ours(failure.outcome)) {
    not_ours_until_.reset();
  } else if (!not_ours_until_) {
    not_ours_until_ = Deadline::in(kNotOursFor);
    log_warning(failure.text);
  } else if (not_ours_until_->passed()) {
    return events_.refused({exit_code(ErrorKind::kUnavailable), failure.text});
  }
  if (failure.by_this_machine && !was_open_) events_.refused_here();
  tell_trouble();
  dial_again();
}

void Spoke::dial_again() {
  const auto longest = often_until_.passed() ? kLongestPause : kShortPause;
  pause_ = std::clamp<std::chrono::milliseconds>(2 * pause_, kFirstPause, longest);
  next_dial_ = timers_.in(pause_, [this] { dial(); });
}

void Spoke::tell_trouble() {
  if (!tell_at_.passed()) return;
  tell_at_ = Deadline::in(kLineEvery);
  log_warning("the launcher at " + plan_.host + ":" + std::to_string(plan_.port) +
              " is not reached: " + trouble_);
}

void Spoke::hear(std::string_view frame) {
  auto message = decode(frame);
  if (!message.ok()) {
    connection_->close();
    return lost({Outcome::kBroken, message.error().message});
  }
  heard_by_ = Deadline::in(std::chrono::nanoseconds(limit_ns_ / 3));
  std::visit([this](const auto& what) { on(what); }, *message);
}

void Spoke::on(const message::Welcome& welcome) {
  log_debug("met " + welcome.host + ", which leads, as " + welcome.address);
  if (const std::string other = translation(plan_.self.host, local_address_, welcome.address);
      !other.empty() && !was_open_)
    log_warning(other);
  open_ = was_open_ = true;
  pause_ = 0ms;
  trouble_.clear();
  not_ours_until_.reset();
  events_.open();
}

void Spoke::on(const message::Refused& refused) {
  events_.refused({exit_code_of(refused.reason), refused.text});
}

void Spoke::on(const nodes::LeaderWord& word) {
  if (!open_) return;
  if (const std::string doubt = implausible(word, monotonic_ns()); !doubt.empty()) {
    connection_->close();
    return lost({Outcome::kBroken, connection_->name() + " says what cannot be true: " + doubt});
  }
  limit_ns_ = word.limit;
  events_.word(word);
}

// At once: a connection that is made again within a second has cost nothing.
void Spoke::lost(const control::Failure& failure) {
  connection_.reset();
  trouble_ = failure.text;
  if (std::exchange(open_, false)) {
    tell_at_ = Deadline::in(kFirstLine);
    often_until_ = Deadline::in(1s);
    events_.closed();
  }
  tell_trouble();
  dial_again();
}

// A connection that something on the way has dropped looks like one on which nobody speaks.
void Spoke::watch() {
  if (connection_ && heard_by_.passed()) {
    connection_->close();
    lost({Outcome::kTooLate, plan_.host + ": connected, but nothing comes through"});
  }
  watch_ = timers_.in(100ms, [this] { watch(); });
}

void Spoke::say(const nodes::NodeWord& word) {
  if (!open_) return;
  if (const auto text = encode(word); text.ok()) connection_->send(*text);
}

void Spoke::tell(const message::Failed& failed) {
  if (!open_) return;
  if (const auto text = encode(failed); text.ok()) connection_->send(*text);
}

void Spoke::leave() {
  next_dial_.cancel();
  watch_.cancel();
  dial_.reset();
  if (!connection_) return;
  connection_->hear({});
  connection_->close();
}

}  // namespace lockstep::star

#include "star/spoke.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/endpoint.h"
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
constexpr auto kNotOursFor = 5s, kFirstAnswer = 5s;
constexpr const char* kNotOursText = "5 s";

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
      fresh_by_(Deadline::in(0s)),
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
  dial_.reset();
  if (!connection) return beside_ ? failed_beside(failure) : failed(failure);
  begin(connection);
}

void Spoke::begin(const std::shared_ptr<Connection>& connection) {
  (beside_ ? fresh_ : connection_) = connection;
  if (!beside_) heard_by_ = Deadline::in(kFirstAnswer);
  fresh_by_ = Deadline::in(kFirstAnswer);
  Connection::Events events;
  events.frame = [this, of = connection.get()](std::string_view frame) { hear(*of, frame); };
  events.ended = [this, of = connection.get()](const control::Failure& end) { ended(*of, end); };
  connection->hear(std::move(events));
  message::Hello hello = plan_.self;
  if (connection->local()) hello.local_address = connection->local()->host();
  if (const auto text = encode(hello); text.ok()) return connection->send(*text);
  events_.refused({exit_code(ErrorKind::kUsage),
                   "the program's arguments are longer than what can be told to other nodes"});
}

void Spoke::failed(const control::Failure& failure) {
  trouble_ = failure.text + events_.advice(failure);
  if (!is_not_ours(failure.outcome)) {
    not_ours_until_.reset();
  } else if (!not_ours_until_) {
    not_ours_until_ = Deadline::in(kNotOursFor);
    log_warning(failure.text + "; goes on trying for " + kNotOursText);
  } else if (not_ours_until_->passed()) {
    return events_.refused(
        {exit_code(ErrorKind::kUnavailable), trouble_ + "; tried for " + kNotOursText});
  }
  if (failure.by_this_machine && !was_open_) events_.refused_here();
  tell_trouble();
  dial_again();
}

// Of the silent connection it says nothing, unless nobody listens any more where it leads.
void Spoke::failed_beside(const control::Failure& failure) {
  if (is_refused_there(failure)) {
    connection_->hear({});
    return lost(failure);
  }
  trouble_ = "connected, but nothing comes through; a new connection: " + failure.text;
  tell_trouble();
  next_dial_ = timers_.in(kShortPause, [this] { dial(); });
}

bool Spoke::is_refused_there(const control::Failure& failure) const {
  if (failure.outcome != Outcome::kRefused) return false;
  return !connection_->remote() || connection_->remote()->host() == failure.from;
}

void Spoke::dial_again() {
  const auto longest = often_until_.passed() ? kLongestPause : kShortPause;
  pause_ = std::clamp<std::chrono::milliseconds>(2 * pause_, kFirstPause, longest);
  next_dial_ = timers_.in(pause_, [this] { dial(); });
}

void Spoke::tell_trouble() {
  if (!tell_at_.passed()) return;
  tell_at_ = Deadline::in(kLineEvery);
  log_warning("the launcher at " + endpoint_text(plan_.host, plan_.port) +
              " is not reached: " + trouble_ + events_.tries_on());
}

void Spoke::hear(const Connection& from, std::string_view frame) {
  auto message = decode(frame);
  if (!message.ok()) {
    if (&from == fresh_.get()) return ended(from, {Outcome::kBroken, message.error().message});
    connection_->close();
    return lost({Outcome::kBroken, message.error().message});
  }
  if (&from != fresh_.get())
    heard();
  else if (std::holds_alternative<message::Welcome>(*message))
    replace();
  std::visit([this](const auto& what) { on(what); }, *message);
}

// By the connection: what was dialled beside it is not needed.
void Spoke::heard() {
  heard_by_ = Deadline::in(std::chrono::nanoseconds(limit_ns_ / 3));
  if (!std::exchange(beside_, false)) return;
  dial_.reset();
  next_dial_.cancel();
  drop_fresh();
  trouble_.clear();
}

void Spoke::replace() {
  old_ = std::exchange(connection_, std::exchange(fresh_, nullptr));
  old_->hear({});
  heard_by_ = Deadline::in(std::chrono::nanoseconds(limit_ns_ / 3));
  beside_ = false;
}

void Spoke::drop_fresh() {
  if (fresh_) fresh_->close();
  fresh_.reset();
}

void Spoke::on(const message::Welcome& welcome) {
  log_debug("met " + welcome.host + ", which leads, as " + welcome.address);
  if (connection_->local()) local_address_ = connection_->local()->host();
  if (connection_->remote()) leader_address_ = connection_->remote()->host();
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
  events_.refused({exit_code_of(refused.reason),
                   refused.text + events_.advice({Outcome::kClosed, refused.text})});
}

void Spoke::on(const nodes::LeaderWord& word) {
  if (!open_) return;
  if (const std::string doubt = implausible(word, clock_ns(plan_.clock)); !doubt.empty()) {
    connection_->close();
    return lost({Outcome::kBroken, connection_->name() + " says what cannot be true: " + doubt});
  }
  if (old_) std::exchange(old_, nullptr)->close();
  limit_ns_ = word.limit;
  events_.word(word);
}

void Spoke::ended(const Connection& which, const control::Failure& failure) {
  if (&which != fresh_.get()) return lost(failure);
  drop_fresh();
  failed_beside(failure);
}

// At once: a connection that is made again within a second has cost nothing. What was dialled
// beside it goes on.
void Spoke::lost(const control::Failure& failure) {
  connection_ = std::exchange(fresh_, nullptr);
  beside_ = false;
  heard_by_ = fresh_by_;
  trouble_ = failure.text;
  if (std::exchange(open_, false)) {
    tell_at_ = Deadline::in(kFirstLine);
    often_until_ = Deadline::in(1s);
    // What this machine's kernel has given up is silence, too.
    if (failure.outcome != Outcome::kUnreachable) events_.closed();
  }
  tell_trouble();
  if (!connection_ && !dial_) dial_again();
}

// A connection that something on the way has dropped looks like one on which nobody speaks.
void Spoke::watch() {
  if (fresh_ && fresh_by_.passed()) {
    drop_fresh();
    failed_beside({Outcome::kTooLate, plan_.host + ": no answer"});
  }
  if (connection_ && !beside_ && heard_by_.passed()) {
    if (open_) {
      dial_beside();
    } else {
      connection_->close();
      lost({Outcome::kTooLate, plan_.host + ": connected, but nothing comes through"});
    }
  }
  watch_ = timers_.in(100ms, [this] { watch(); });
}

void Spoke::dial_beside() {
  beside_ = true;
  trouble_ = "connected, but nothing comes through";
  tell_at_ = Deadline::in(kFirstLine);
  dial();
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
  drop_fresh();
  if (!connection_) return;
  connection_->hear({});
  connection_->close();
}

}  // namespace lockstep::star

#include "star/spoke.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/endpoint.h"
#include "base/log.h"
#include "lockstep/status.h"
#include "star/agreement.h"
#include "star/beat.h"
#include "star/dial_plan.h"
#include "star/plausible.h"

namespace lockstep::star {
namespace {

using namespace std::chrono_literals;
using control::Connection;
using control::Outcome;

// At first often: what is there again within a second has cost nothing.
constexpr auto kFirstPause = 20ms, kShortPause = 100ms, kLongestPause = 500ms;
constexpr auto kStart = 250ms;  // RFC 8305, section 5
constexpr auto kNotOursFor = 5s, kFirstAnswer = 5s;
constexpr const char* kNotOursText = "5 s";

// Who answers is no leader that we could be a node of, and will not become one by waiting.
bool is_not_ours(Outcome outcome) {
  return outcome == Outcome::kNotLockstep || control::is_other_launcher(outcome);
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

// The last address has a start, so that the leader gets one connection where all is well.
void Spoke::dial() {
  has_start_ = dial_last_address();
  if (!has_start_) return dial_by_name();
  next_dial_ = timers_.in(kStart, [this] { dial_by_name(); });
}

// False: there is none beside the endpoint's own, or it is being dialled.
bool Spoke::dial_last_address() {
  if (to_last_ || last_address_.empty() || last_address_ == plan_.host) return false;
  next_to_last_.cancel();
  to_last_ = start_dial(last_address_, [this](auto connection, const control::Failure& failure) {
    to_last_.reset();
    if (!connection) return failed_at_last_address(failure);
    drop_dials();
    begin(connection);
    doubtful_ = connection.get();
  });
  return true;
}

void Spoke::dial_by_name() {
  has_start_ = false;
  next_dial_.cancel();
  dial_ = start_dial(plan_.host, [this](auto connection, const control::Failure& failure) {
    dial_.reset();
    if (!connection) return beside_ ? failed_beside(failure) : failed(failure);
    drop_dials();
    begin(connection);
  });
}

std::unique_ptr<control::Dial> Spoke::start_dial(const std::string& host,
                                                 control::Dial::Done done) {
  return control::Dial::start(loop_, timers_, dial_plan(plan_, host, plan_.port), std::move(done));
}

void Spoke::drop_dials() {
  dial_.reset();
  to_last_.reset();
  next_dial_.cancel();
  next_to_last_.cancel();
}

void Spoke::begin(const std::shared_ptr<Connection>& connection) {
  (beside_ ? fresh_ : connection_) = connection;
  doubtful_ = nullptr;
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
  if (failure.outcome == Outcome::kNoSuchName && !last_trouble_.empty())
    trouble_ += "; where it was last: " + last_trouble_;
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

// Whoever is there now says nothing of the leader, which may have moved: the name tells.
void Spoke::failed_at_last_address(const control::Failure& failure) {
  last_trouble_ = failure.text;
  if (beside_ && is_refused_there(failure)) {
    connection_->hear({});
    return lost(failure);
  }
  const bool is_often = beside_ || !often_until_.passed();  // a look-up may take its time
  next_to_last_ =
      timers_.in(is_often ? kShortPause : kLongestPause, [this] { dial_last_address(); });
  if (has_start_) dial_by_name();
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
  if (quiet_ || !tell_at_.passed()) return;
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
  if (const auto* refused = std::get_if<message::Refused>(&*message);
      refused != nullptr && &from == doubtful_)
    return is_elsewhere(from, refused->text);
  if (&from != fresh_.get())
    heard();
  else if (std::holds_alternative<message::Welcome>(*message))
    replace();
  std::visit([this](const auto& what) { on(what); }, *message);
}

// The name tells where, and whether it is the leader that refuses.
void Spoke::is_elsewhere(const Connection& from, const std::string& why) {
  last_address_.clear();
  const control::Failure failure{Outcome::kClosed, from.name() + ": " + why};
  if (&from == fresh_.get()) {
    drop_fresh();
    return failed_beside(failure);
  }
  connection_->close();
  lost(failure);
}

// By the connection: what was dialled beside it is not needed, if this side is heard as well.
void Spoke::heard() {
  heard_by_ = Deadline::in(std::chrono::nanoseconds(limit_ns_ / 3));
  if (!beside_ || connection_->is_stuck()) return;
  beside_ = false;
  drop_dials();
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
  if (connection_->remote()) last_address_ = leader_address_ = connection_->remote()->host();
  if (const std::string other = translation(plan_.self.host, local_address_, welcome.address);
      !other.empty() && !was_open_)
    log_warning(other);
  open_ = was_open_ = true;
  pause_ = 0ms;
  trouble_.clear();
  last_trouble_.clear();
  doubtful_ = nullptr;
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
  const bool is_stuck = connection_ && open_ && connection_->is_stuck();
  const bool is_silent = heard_by_.passed() && (expects_words_ || !open_);
  if (connection_ && !beside_ && (is_stuck || is_silent)) {
    if (open_) {
      dial_beside();
    } else {
      connection_->close();
      lost({Outcome::kTooLate, plan_.host + ": connected, but nothing comes through"});
    }
  }
  watch_ = timers_.in(100ms, [this] { watch(); });
}

void Spoke::expect_words(bool expects) {
  if (!std::exchange(expects_words_, expects) && expects)
    heard_by_ = Deadline::in(std::chrono::nanoseconds(limit_ns_ / 3));
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

void Spoke::on_hosts(const Message& message) {
  if (!open_) return;
  if (old_) std::exchange(old_, nullptr)->close();
  events_.of_hosts(message);
}

void Spoke::tell(const Message& message) {
  if (!open_) return;
  if (const auto text = encode(message); text.ok()) connection_->send(*text);
}

void Spoke::leave() {
  watch_.cancel();
  drop_dials();
  drop_fresh();
  if (!connection_) return;
  connection_->hear({});
  connection_->close();
}

}  // namespace lockstep::star

#include "control/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>

namespace lockstep::control {
namespace {

using namespace std::chrono_literals;

constexpr auto kLinger = 1s;
constexpr std::size_t kMostOpeningBytes = 16 * 1024;
constexpr std::size_t kReadBytes = 8 * 1024;  // at a time, so that nobody holds up the others

std::string frame_of(std::string_view content) {
  const auto size = static_cast<std::uint32_t>(content.size());
  std::string frame(reinterpret_cast<const char*>(&size), sizeof size);
  return frame.append(content);
}

}  // namespace

Connection::Connection(Loop& loop, Timers& timers, UniqueFd socket, Plan plan, Events events)
    : loop_(loop),
      timers_(timers),
      socket_(std::move(socket)),
      plan_(std::move(plan)),
      events_(std::make_shared<const Events>(std::move(events))),
      local_(Address::local_of(socket_.get())),
      remote_(Address::remote_of(socket_.get())) {
  const int on = 1;  // a heartbeat waits for nothing; no matter on a socket of another family
  ::setsockopt(socket_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Connection::~Connection() {
  if (socket_) loop_.remove(socket_.get());
}

std::shared_ptr<Connection> Connection::start(Loop& loop, Timers& timers, UniqueFd socket,
                                              Plan plan, Events events) {
  std::shared_ptr<Connection> made(
      new Connection(loop, timers, std::move(socket), std::move(plan), std::move(events)));
  made->watch(false);
  made->begin();
  return made;
}

void Connection::turn_away(Loop& loop, Timers& timers, UniqueFd socket, std::string bytes) {
  const std::shared_ptr<Connection> made(new Connection(loop, timers, std::move(socket), {}, {}));
  made->watch(false);
  made->out_ = std::move(bytes);
  made->leave();
}

void Connection::begin() {
  if (!plan_.tls) {
    say(preface_of(plan_.self));
    greeted_ = true;
  } else if (auto tls = Tls::begin(plan_.tls, plan_.side, plan_.run_id); !tls.ok()) {
    return fail_later({Outcome::kBroken, tls.error().message});
  } else {
    tls_.emplace(*std::move(tls));
    std::string nothing;
    // Who dials speaks first.
    if (auto failed = tls_->receive({}, nothing, out_)) return fail_later(*std::move(failed));
  }
  flush();
}

// The loop holds no connection: it ends with the last who wants it.
void Connection::watch(bool writes) {
  loop_.remove(socket_.get());
  const auto call = [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_ready();
  };
  if (const Status added = loop_.add(socket_.get(), call, writes ? Loop::kBoth : Loop::kReadable);
      !added.ok())
    fail_later({Outcome::kBroken, plan_.name + ": " + added.error().message});
  writes_ = writes;
}

void Connection::on_ready() {
  flush();
  if (state_ != State::kOver) read();
}

void Connection::read() {
  std::array<char, kReadBytes> bytes;
  const ssize_t count = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
  if (count > 0) return take({bytes.data(), static_cast<std::size_t>(count)});
  if (count == 0 && send_error_ == 0) return on_end_of_stream();
  const int error = count == 0 ? send_error_ : errno;
  if (error == EAGAIN || error == EINTR) return;
  if (state_ == State::kLeaving) return finish();
  // A router says so, or this machine's kernel has waited in vain: nobody has closed it.
  const bool is_reset = error == ECONNRESET || error == EPIPE;
  fail({is_reset ? Outcome::kReset : Outcome::kUnreachable,
        sentence(Outcome::kReset, std::strerror(error))});
}

void Connection::take(std::string_view wire) {
  if (state_ == State::kLeaving) return;  // nobody is interested any more
  if (state_ == State::kOpening) received_ += wire.size();
  if (!tls_) {
    plain_ += wire;
  } else if (auto failed = tls_->receive(wire, plain_, out_)) {
    // What came before is whole.
    parse();
    if (state_ == State::kOpening || state_ == State::kOpen)
      fail({failed->outcome, sentence(failed->outcome, failed->text)});
    return;
  }
  if (tls_ && tls_->established() && !greeted_) {
    greeted_ = true;
    say(preface_of(plan_.self));
  }
  parse();
  if (state_ == State::kOpening && received_ > kMostOpeningBytes)
    return fail({Outcome::kNotLockstep,
                 sentence(Outcome::kNotLockstep, "it has sent " + std::to_string(received_) +
                                                     " bytes without saying who it is")});
  if (state_ != State::kOver) flush();
}

void Connection::parse() {
  if (state_ == State::kOpening) read_first();
  std::size_t at = 0;
  while (state_ == State::kOpen && read_frame(at)) {
  }
  plain_.erase(0, std::min(at, plain_.size()));
}

void Connection::read_first() {
  auto preface = read_preface(plain_);
  if (!preface.ok())
    return fail({Outcome::kNotLockstep, sentence(Outcome::kNotLockstep, preface.error().message)});
  if (!*preface) return;
  plain_.erase(0, (*preface)->bytes);
  greet((*preface)->party);
}

void Connection::greet(const Party& other) {
  Outcome outcome{};
  if (other.protocol == kKeyWanted && plan_.side == Side::kDials)
    outcome = Outcome::kKeyMissing;
  else if (other.protocol != plan_.self.protocol)
    outcome = Outcome::kOtherVersion;
  else if (other.incarnation == plan_.self.incarnation)
    outcome = Outcome::kItself;
  else {
    state_ = State::kOpen;
    const auto events = events_;
    return events->open(other);
  }
  fail({outcome, sentence(outcome, "Lockstep " + other.version + ", protocol " +
                                       std::to_string(other.protocol))});
}

bool Connection::read_frame(std::size_t& at) {
  std::uint32_t size = 0;
  if (plain_.size() - at < sizeof size) return false;
  std::memcpy(&size, plain_.data() + at, sizeof size);
  const std::size_t limit = heard_ ? kMostFrameBytes : plan_.most_first_bytes;
  if (size > limit) {
    fail({Outcome::kBroken,
          sentence(Outcome::kBroken, "a frame says " + std::to_string(size) + " bytes, limit " +
                                         std::to_string(limit))});
    return false;
  }
  if (size == 0) {
    fail({Outcome::kClosed, sentence(Outcome::kClosed, "")});
    return false;
  }
  if (plain_.size() - at - sizeof size < size) return false;
  const auto events = events_;  // the event may set others
  const std::string_view frame(plain_.data() + at + sizeof size, size);
  at += sizeof size + size;
  heard_ = true;
  events->frame(frame);
  return true;
}

void Connection::send(std::string_view frame) {
  if (state_ != State::kOpen || frame.empty()) return;
  if (frame.size() > kMostFrameBytes)
    return fail_later({Outcome::kBroken, plan_.name + ": a frame of " +
                                             std::to_string(frame.size()) + " bytes, limit " +
                                             std::to_string(kMostFrameBytes)});
  if (out_.size() - sent_ + frame.size() > kMostQueuedBytes)
    return fail_later({Outcome::kOverrun, sentence(Outcome::kOverrun, "")});
  say(frame_of(frame));
  flush();
}

void Connection::say(std::string_view plain) {
  if (!tls_) {
    out_ += plain;
  } else if (auto failed = tls_->send(plain, out_)) {
    fail_later({failed->outcome, sentence(failed->outcome, failed->text)});
  }
}

void Connection::flush() {
  bool broken = false;
  while (sent_ < out_.size()) {
    const ssize_t count =
        ::send(socket_.get(), out_.data() + sent_, out_.size() - sent_, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    // What is wrong with it is said behind what is still there to be read. The kernel tells of an
    // error once, and then of an end; of one that came behind an end it says EPIPE.
    broken = count < 0 && errno != EAGAIN;
    if (broken && errno != EPIPE) send_error_ = errno;
    if (count < 0) break;
    sent_ += static_cast<std::size_t>(count);
  }
  if (sent_ == out_.size() || sent_ > kMostOpeningBytes) {
    out_.erase(0, sent_);
    sent_ = 0;
  }
  if (state_ == State::kLeaving && out_.empty() && !shut_) {
    ::shutdown(socket_.get(), SHUT_WR);
    shut_ = true;
  }
  if (writes_ != (!out_.empty() && !broken)) watch(!writes_);
}

void Connection::on_end_of_stream() {
  if (state_ == State::kLeaving) return finish();
  fail({Outcome::kGone, sentence(Outcome::kGone, "")});
}

// Whoever is turned away, or wrong, is told why by what is in out_.
void Connection::fail(Failure failure) {
  const Failure why = std::move(failure);  // what it came from may go with what ends here
  const bool nobody_there = why.outcome == Outcome::kGone || why.outcome == Outcome::kReset ||
                            why.outcome == Outcome::kUnreachable;
  const auto events = std::exchange(events_, std::make_shared<const Events>());
  if (nobody_there)
    finish();
  else
    leave();
  events->ended(why);
}

void Connection::fail_later(Failure failure) {
  if (state_ != State::kOpening && state_ != State::kOpen) return;
  timer_ = timers_.in(0ms, [weak = weak_from_this(), failure = std::move(failure)] {
    const auto self = weak.lock();
    if (self && (self->state_ == State::kOpening || self->state_ == State::kOpen))
      self->fail(failure);
  });
}

bool Connection::is_stuck() const {
  constexpr int kMostTries = 2;
  tcp_info info{};
  socklen_t size = sizeof info;
  return socket_ && ::getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
         info.tcpi_backoff >= kMostTries;
}

void Connection::close() {
  if (state_ != State::kOpening && state_ != State::kOpen) return;
  if (state_ == State::kOpen) say(frame_of({}));
  hear({});
  leave();
}

// What is unread when a socket closes resets it, and what was sent is lost: so it is read until the
// other side has closed, too. Meanwhile the timer holds the connection.
void Connection::leave() {
  state_ = State::kLeaving;
  timer_ = timers_.in(kLinger, [self = shared_from_this()] { self->finish(); });
  flush();
}

void Connection::finish() {
  if (state_ == State::kOver) return;
  state_ = State::kOver;
  loop_.remove(socket_.get());
  socket_.reset();
  timer_.cancel();
}

std::string Connection::sentence(Outcome outcome, const std::string& detail) const {
  const std::string& who = plan_.name;
  switch (outcome) {
    case Outcome::kNotLockstep:
      return who + " is no launcher of Lockstep: " + detail;
    case Outcome::kWrongKey:
      return who + " has another key: all launchers of a run need the same one";
    case Outcome::kKeyMissing:
      return plan_.tls ? who + " has no key (LOCKSTEP_INSECURE=1), and this launcher has one"
                       : who + " wants a key, and this launcher has none (LOCKSTEP_INSECURE=1)";
    case Outcome::kOtherVersion:
      return who + " is of another version (" + detail + "), this is Lockstep " +
             plan_.self.version + ", protocol " + std::to_string(plan_.self.protocol) +
             ": install the same one on all machines";
    case Outcome::kItself:
      return who + " leads back to this very launcher";
    case Outcome::kClosed:
      return who + " has closed the connection";
    case Outcome::kGone:
      return who + (state_ == State::kOpening
                        ? " closed the connection before it had said who it is"
                        : " is gone: its launcher ended without a word");
    case Outcome::kOverrun:
      return who + " does not read what is sent to it: " + std::to_string(kMostQueuedBytes) +
             " bytes wait, the limit";
    default:
      return who + ": connection " + to_string(outcome) +
             (detail.empty() ? std::string() : " (" + detail + ")");
  }
}

}  // namespace lockstep::control

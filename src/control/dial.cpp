#include "control/dial.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/endpoint.h"
#include "control/sockets.h"

namespace lockstep::control {
namespace {

using namespace std::chrono_literals;

constexpr auto kStagger = 250ms;  // RFC 8305, section 5
// Then another connection to the same address is begun: what the kernel sends again comes after 1,
// 3 and 7 s, and the way may be free sooner.
constexpr auto kAgain = 500ms;
// For addresses of which nothing is heard, once another one of the name has refused: the machine
// answers there, and its launcher may come any moment.
constexpr std::chrono::milliseconds kAfterRefusal = 1'500ms;

// Families take turns, the first address's first; in each the order stays.
std::deque<Address> interleaved(const std::vector<Address>& addresses) {
  std::deque<Address> first, second, turns;
  for (const Address& address : addresses)
    (address.family() == addresses.front().family() ? first : second).push_back(address);
  while (!first.empty() || !second.empty()) {
    for (std::deque<Address>* queue : {&first, &second}) {
      if (queue->empty()) continue;
      turns.push_back(queue->front());
      queue->pop_front();
    }
  }
  return turns;
}

// The cause that came nearest to a connection is told first.
int nearness(Outcome outcome) {
  constexpr std::array kFarther{Outcome::kNoSuchName, Outcome::kUnreachable, Outcome::kDropped,
                                Outcome::kRefused,    Outcome::kTooLate,     Outcome::kGone,
                                Outcome::kReset,      Outcome::kNotLockstep};
  return static_cast<int>(std::ranges::find(kFarther, outcome) - kFarther.begin());
}

Failure failure_of(int code, const Address& address) {
  const Outcome outcome = outcome_of_connect(code);
  if (outcome == Outcome::kRefused)
    return {outcome, "refused: no launcher listens there",
            !own_addresses(address.host(), Deadline::in(0s)).empty()};
  if (outcome == Outcome::kReset) return {outcome, "the connection was reset at once"};
  if (outcome == Outcome::kDropped) return {outcome, "no answer"};
  if (code == EINVAL && address.is_link_local() && address.host().find('%') == std::string::npos)
    return {outcome, "a link-local address needs its interface: " + address.host() + "%eth0"};
  return {outcome, std::string("unreachable: ") + std::strerror(code)};
}

}  // namespace

Dial::Dial(Loop& loop, Timers& timers, Plan plan, Done done)
    : loop_(loop),
      timers_(timers),
      plan_(std::move(plan)),
      done_(std::move(done)),
      patience_(plan_.patience) {}

Dial::~Dial() { drop_attempts(); }

std::unique_ptr<Dial> Dial::start(Loop& loop, Timers& timers, Plan plan, Done done) {
  std::unique_ptr<Dial> dial(new Dial(loop, timers, std::move(plan), std::move(done)));
  dial->deadline_ = timers.in(dial->plan_.patience, [self = dial.get()] { self->too_late(); });
  // From the loop, as all that `done` is called for.
  dial->stagger_ = timers.in(0ms, [self = dial.get()] { self->begin(); });
  return dial;
}

std::string Dial::name() const { return endpoint_text(plan_.host, plan_.port); }

void Dial::begin() {
  if (plan_.on_this_machine) {
    auto socket = connect_on_this_machine(plan_.port);
    if (!socket.ok()) return finish({}, {Outcome::kRefused, socket.error().message, true});
    if (!is_of_this_user(socket->get()))
      return finish({}, {Outcome::kOtherUser, "port " + std::to_string(plan_.port) +
                                                  " of this machine's launchers is held by "
                                                  "another user's program"});
    return shake_hands(*std::move(socket), name());
  }
  auto look_up = LookUp::start(loop_, plan_.host, plan_.port, plan_.find,
                               [this](const auto& found) { resolved(found); });
  if (!look_up.ok()) return finish({}, {Outcome::kNoSuchName, look_up.error().message});
  look_up_ = *std::move(look_up);
}

void Dial::resolved(const Result<std::vector<Address>>& found) {
  if (!found.ok()) return finish({}, {Outcome::kNoSuchName, found.error().message});
  untried_ = interleaved(*found);
  try_next();
}

void Dial::try_next() {
  stagger_.cancel();
  if (connection_) return;
  if (untried_.empty()) {
    if (attempts_.empty()) return finish({}, summary());
    stagger_ = timers_.in(kAgain, [this] { try_again(); });
    return;
  }
  const Address address = untried_.front();
  untried_.pop_front();
  stagger_ = timers_.in(untried_.empty() ? kAgain : kStagger,
                        [this] { untried_.empty() ? try_again() : try_next(); });
  if (plan_.from && plan_.from->family() != address.family())
    return failed({Outcome::kUnreachable, "of another family than " + plan_.from->host()},
                  address.host());
  if (const int code = connect(address)) failed(failure_of(code, address), address.host());
}

// Beside those that are under way: each address has one failure, whichever tells it.
void Dial::try_again() {
  std::vector<Address> all;
  for (const Attempt& attempt : attempts_)
    if (std::ranges::find(all, attempt.address) == all.end()) all.push_back(attempt.address);
  for (const Address& address : all) (void)connect(address);
  stagger_ = timers_.in(kAgain, [this] { untried_.empty() ? try_again() : try_next(); });
}

// 0: it is under way.
int Dial::connect(const Address& address) {
  UniqueFd socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno;
  // A network that loses large packets is to be told of by launchers that understand each other.
  take_small_segments(socket.get());
  const int number = socket.get();
  if (const int error = begin_connect(number, address, plan_.from); error != 0) return error;
  const Status watched = loop_.add(
      number, [this, number] { on_connected(number); }, Loop::kWritable);
  if (!watched.ok()) return ENOMEM;
  attempts_.push_back({address, std::move(socket)});
  return 0;
}

void Dial::on_connected(int socket) {
  const auto attempt = std::ranges::find_if(
      attempts_, [&](const Attempt& each) { return each.socket.get() == socket; });
  const int code = error_of_connect(socket);
  Attempt taken = std::move(*attempt);
  attempts_.erase(attempt);
  loop_.remove(socket);
  if (code != 0) {
    drop_attempts_to(taken.address);
    return failed(failure_of(code, taken.address), taken.address.host());
  }
  drop_attempts();
  const std::string host = taken.address.host();
  shake_hands(std::move(taken.socket), host == plan_.host ? name() : name() + " (" + host + ")");
}

// Those that were not there first are tried again if this one does not become a connection.
void Dial::drop_attempts() {
  while (!attempts_.empty()) {
    const Address address = attempts_.back().address;
    drop_attempts_to(address);
    untried_.push_front(address);
  }
  stagger_.cancel();
}

void Dial::drop_attempts_to(const Address& address) {
  std::erase_if(attempts_, [&](const Attempt& attempt) {
    if (attempt.address != address) return false;
    loop_.remove(attempt.socket.get());
    return true;
  });
}

void Dial::shake_hands(UniqueFd socket, std::string name) {
  Connection::Plan plan{Side::kDials, plan_.self, plan_.on_this_machine ? nullptr : plan_.tls,
                        plan_.run_id, std::move(name)};
  Connection::Events events;
  events.open = [this](const Party&) {
    const auto connection = std::exchange(connection_, nullptr);
    connection->hear({});
    finish(connection, {});
  };
  events.ended = [this](const Failure& failure) {
    connection_.reset();
    failed(failure, "");
  };
  connection_ =
      Connection::start(loop_, timers_, std::move(socket), std::move(plan), std::move(events));
}

// `where`: the address; empty where the text says it.
void Dial::failed(Failure failure, const std::string& where) {
  if (!where.empty())
    failure.text =
        (where == plan_.host ? name() : name() + " (" + where + ")") + ": " + failure.text;
  failure.from = where;
  if (failure.outcome == Outcome::kRefused && patience_ > kAfterRefusal) {
    patience_ = kAfterRefusal;
    deadline_ = timers_.in(patience_, [this] { too_late(); });
  }
  failures_.push_back(std::move(failure));
  // Not before this call has come to its end: a machine with many addresses, none of them near.
  stagger_ = timers_.in(0ms, [this] { try_next(); });
}

Failure Dial::summary() const {
  const auto told = std::ranges::max_element(
      failures_, {}, [](const Failure& each) { return nearness(each.outcome); });
  Failure all = *told;
  for (auto other = failures_.begin(); other != failures_.end(); ++other)
    if (other != told) all.text += "; " + other->text;
  all.by_this_machine =
      std::ranges::any_of(failures_, [](const Failure& each) { return each.by_this_machine; });
  return all;
}

void Dial::too_late() {
  const std::string within = " within " + std::to_string(patience_.count()) + " ms";
  if (connection_) {
    const std::string who = connection_->name();
    connection_.reset();
    failures_.push_back({Outcome::kTooLate, who + " did not say who it is" + within});
  } else if (untried_.empty() && attempts_.empty() && failures_.empty()) {
    failures_.push_back(
        {Outcome::kNoSuchName, "the look-up of '" + plan_.host + "' gave no answer" + within});
  }
  while (!attempts_.empty()) {
    const Attempt attempt = std::move(attempts_.front());
    loop_.remove(attempt.socket.get());
    drop_attempts_to(attempt.address);
    failures_.push_back(
        {Outcome::kDropped,
         (attempt.address.host() == plan_.host ? name()
                                               : name() + " (" + attempt.address.host() + ")") +
             ": no answer" + within +
             ": the machine is down, or a firewall drops what is sent to it"});
  }
  finish({}, summary());
}

void Dial::finish(std::shared_ptr<Connection> connection, const Failure& failure) {
  drop_attempts();
  deadline_.cancel();
  look_up_.reset();
  const Done done = std::exchange(done_, nullptr);
  if (done) done(std::move(connection), failure);
}

}  // namespace lockstep::control

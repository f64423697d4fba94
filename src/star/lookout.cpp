#include "star/lookout.h"

#include <utility>
#include <variant>

#include "base/log.h"
#include "star/dial_plan.h"

namespace lockstep::star {
namespace {

using namespace std::chrono_literals;
using control::Connection;
using control::Failure;
using control::Outcome;

constexpr auto kPatience = 1s;  // for a connection, and for the answer

// Whose machine is there, and who is no leader of this run: nobody, a program, or another run's.
bool is_nobody(Outcome outcome) {
  return outcome == Outcome::kRefused || outcome == Outcome::kNotLockstep ||
         outcome == Outcome::kItself || control::is_other_launcher(outcome);
}

}  // namespace

Lookout::Lookout(Loop& loop, control::Timers& timers, Plan plan, Events events)
    : loop_(loop),
      timers_(timers),
      plan_(std::move(plan)),
      events_(std::move(events)),
      places_(plan_.places.size()) {}

Lookout::~Lookout() = default;

void Lookout::look(std::chrono::milliseconds every, int but) {
  every_ = every;
  if (std::exchange(looks_, true)) return;
  for (int place = 0; place < static_cast<int>(places_.size()); ++place)
    if (place != but) at(place).next = timers_.in(0ms, [this, place] { dial(place); });
}

void Lookout::rest() {
  if (!std::exchange(looks_, false)) return;
  for (Place& place : places_) place = Place();
}

void Lookout::dial(int place) {
  const At& where = plan_.places[static_cast<std::size_t>(place)];
  control::Dial::Plan plan = dial_plan(plan_, where.host, where.port);
  plan.patience = kPatience;
  at(place).dial = control::Dial::start(
      loop_, timers_, std::move(plan), [this, place](auto connection, const Failure& failure) {
        at(place).dial.reset();
        connection ? ask(place, std::move(connection)) : failed(place, failure);
      });
}

void Lookout::ask(int place, std::shared_ptr<Connection> connection) {
  Connection::Events events;
  events.frame = [this, place](std::string_view frame) { hear(place, frame); };
  events.ended = [this, place](const Failure& failure) { failed(place, failure); };
  connection->hear(std::move(events));
  message::Hello hello = plan_.self;
  hello.looks = true;
  if (const auto text = encode(hello); text.ok()) connection->send(*text);
  at(place).connection = std::move(connection);
  at(place).limit = timers_.in(kPatience, [this, place] {
    failed(place, {Outcome::kTooLate, "no answer", false, ""});
  });
}

void Lookout::hear(int place, std::string_view frame) {
  const auto message = decode(frame);
  const auto* leads = message.ok() ? std::get_if<message::Leads>(&*message) : nullptr;
  const auto* refused = message.ok() ? std::get_if<message::Refused>(&*message) : nullptr;
  done(place);
  if (leads != nullptr)
    events_.lead({place, leads->attempt, leads->active});
  else if (refused != nullptr && refused->reason == message::Reason::kOtherOption)
    events_.refused(*refused);
  else
    events_.nobody(place, false);
}

void Lookout::failed(int place, const Failure& failure) {
  done(place);
  log_debug("looked for a leader: " + failure.text);
  is_nobody(failure.outcome) ? events_.nobody(place, failure.by_this_machine)
                             : events_.silence(place);
}

void Lookout::done(int place) {
  Place& there = at(place);
  there.limit.cancel();
  if (there.connection) {
    there.connection->hear({});
    there.connection->close();
    there.connection.reset();
  }
  there.next = timers_.in(every_, [this, place] { dial(place); });
}

}  // namespace lockstep::star

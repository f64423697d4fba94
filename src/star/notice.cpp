#include "star/notice.h"

#include <chrono>
#include <utility>
#include <variant>

#include "star/dial_plan.h"

namespace lockstep::star {

Notice::Notice(Loop& loop, control::Timers& timers, Spoke::Plan plan, message::Claim claim)
    : loop_(loop), timers_(timers), plan_(std::move(plan)), claim_(claim) {
  dial();
}

Notice::~Notice() = default;

void Notice::dial() {
  if (connection_) std::exchange(connection_, nullptr)->close();
  dial_ = control::Dial::start(loop_, timers_, dial_plan(plan_, plan_.host, plan_.port),
                               [this](auto connection, const control::Failure& /*nobody*/) {
                                 dial_.reset();
                                 connection_ = std::move(connection);
                                 if (connection_) tell();
                                 next_ = timers_.in(
                                     std::chrono::duration_cast<std::chrono::milliseconds>(
                                         std::chrono::nanoseconds(plan_.limit_ns)),
                                     [this] { dial(); });
                               });
}

// Who answers with Welcome hears the rest.
void Notice::tell() {
  control::Connection::Events events;
  events.frame = [this](std::string_view frame) { hear(frame); };
  connection_->hear(std::move(events));
  if (const auto text = encode(plan_.self); text.ok()) connection_->send(*text);
}

void Notice::hear(std::string_view frame) {
  const auto message = decode(frame);
  if (!message.ok() || !std::holds_alternative<message::Welcome>(*message)) return;
  if (const auto text = encode(claim_); text.ok()) connection_->send(*text);
}

}  // namespace lockstep::star

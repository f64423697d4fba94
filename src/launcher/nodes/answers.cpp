#include "launcher/nodes/answers.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <variant>

#include "base/hash.h"
#include "base/log.h"
#include "control/sockets.h"

namespace lockstep::launcher {

using control::Connection;
using star::message::StatusQuery;
using star::message::StopOrder;

std::string socket_names_of(const std::string& run_id) {
  return "lockstep-node-" + std::to_string(::geteuid()) + "-" + sha256_hex(run_id).substr(0, 32) +
         "-";
}

Answers::Answers(Loop& loop, control::Timers& timers, Events events)
    : loop_(loop), timers_(timers), events_(std::move(events)) {}

Answers::~Answers() = default;

Status Answers::listen(const std::string& run_id, const control::Party& party) {
  LOCKSTEP_ASSIGN(UniqueFd socket, control::listen_by_name(socket_names_of(run_id) +
                                                           std::to_string(party.incarnation)));
  control::Listener::Plan plan{party, nullptr, true};
  plan.most_waiting = kMostAskers;
  control::Listener::Events events;
  events.come = [this](const std::shared_ptr<Connection>& connection, std::string_view first) {
    const auto message = star::decode(first);
    message.ok() && star::is_question(*message) ? come(connection, *message) : connection->close();
  };
  events.turned_away = [](const control::Failure& failure) {
    log_debug("turned away: " + failure.text);
  };
  LOCKSTEP_ASSIGN(listener_, control::Listener::open(loop_, timers_, std::move(socket),
                                                     std::move(plan), std::move(events)));
  return {};
}

void Answers::come(std::shared_ptr<Connection> connection, const star::Message& first) {
  if (askers_.size() >= kMostAskers) drop(askers_.front().id);
  const std::uint64_t id = ++last_id_;
  Connection::Events events;
  events.frame = [this, id](std::string_view frame) { hear(id, frame); };
  events.ended = [this, id](const control::Failure&) { drop(id); };
  connection->hear(std::move(events));
  askers_.push_back(
      {id, std::move(connection), 0, timers_.in(kPatience, [this, id] { drop(id); })});
  answer(askers_.back(), first);
}

void Answers::hear(std::uint64_t id, std::string_view frame) {
  const auto found = std::ranges::find(askers_, id, &Asker::id);
  if (found == askers_.end()) return;
  const auto question = star::decode(frame);
  if (!question.ok() || !star::is_question(*question) || found->questions >= kMostQuestions)
    return drop(id);
  answer(*found, *question);
}

void Answers::answer(Asker& asker, const star::Message& question) {
  ++asker.questions;
  const auto connection = asker.connection;  // a stop may end what is here
  const auto* const query = std::get_if<StatusQuery>(&question);
  const auto& remote = connection->remote();
  const auto answer = query != nullptr
                          ? events_.status(*query)
                          : events_.stop(std::get<StopOrder>(question).host +
                                         (remote ? " (" + remote->host() + ")" : std::string()));
  if (const auto text = star::encode(answer); text.ok())
    connection->send(*text);
  else
    connection->close();
}

void Answers::drop(std::uint64_t id) {
  const auto found = std::ranges::find(askers_, id, &Asker::id);
  if (found == askers_.end()) return;
  leaving_.push_back(std::move(found->connection));
  askers_.erase(found);
  leaving_.back()->close();
}

void Answers::look() {
  if (listener_) listener_->look();
  leaving_.remove_if([](const auto& connection) { return connection->is_over(); });
}

void Answers::leave() {
  listener_.reset();
  while (!askers_.empty()) drop(askers_.front().id);
}

bool Answers::has_left() const {
  return std::ranges::all_of(leaving_,
                             [](const auto& connection) { return connection->is_over(); });
}

}  // namespace lockstep::launcher

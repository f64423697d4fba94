#include "star/hub.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>
#include <variant>

#include "base/crowd.h"
#include "base/log.h"
#include "base/seconds.h"
#include "star/agreement.h"
#include "star/beat.h"
#include "star/plausible.h"

namespace lockstep::star {
namespace {

using namespace std::chrono_literals;
using control::Connection;
using control::Outcome;

constexpr const char* kLoopback = "127.0.0.1";
constexpr auto kFirstWord = 5s;
constexpr std::size_t kMostLeaving = 256;

// Within the machine there is none to be seen.
std::string address_of(const Connection& connection) {
  return connection.remote() ? connection.remote()->host() : kLoopback;
}

std::string local_of(const Connection& connection) {
  return connection.local() ? connection.local()->host() : "";
}

}  // namespace

Hub::Hub(Loop& loop, control::Timers& timers, Plan plan, Events events)
    : loop_(loop),
      timers_(timers),
      plan_(std::move(plan)),
      events_(std::move(events)),
      begun_ns_(now()),
      leader_(plan_.rules, plan_.own, plan_.run, plan_.before, begun_ns_),
      tell_missing_at_(Deadline::in(kFirstLine)) {}

Hub::~Hub() = default;

Result<std::unique_ptr<Hub>> Hub::open(Loop& loop, control::Timers& timers,
                                       std::vector<ListenSocket> sockets, Plan plan,
                                       Events events) {
  std::unique_ptr<Hub> hub(new Hub(loop, timers, std::move(plan), std::move(events)));
  LOCKSTEP_TRY(hub->listen(std::move(sockets)));
  hub->beat();
  return hub;
}

Status Hub::listen(std::vector<ListenSocket> sockets) {
  for (ListenSocket& socket : sockets) {
    control::Listener::Plan plan{plan_.party, socket.tls, socket.on_this_machine};
    control::Listener::Events events;
    events.come = [this](const auto& connection, std::string_view first) {
      come(connection, first);
    };
    events.store = events_.store;
    events.turned_away = [this](const control::Failure& failure) { not_let_in_.note(failure); };
    LOCKSTEP_ASSIGN(auto listener, control::Listener::open(loop_, timers_, std::move(socket.socket),
                                                           std::move(plan), std::move(events)));
    listeners_.push_back(std::move(listener));
  }
  return {};
}

void Hub::come(const std::shared_ptr<Connection>& connection, std::string_view first) {
  auto message = decode(first);
  const auto* hello = message.ok() ? std::get_if<message::Hello>(&*message) : nullptr;
  if (message.ok() && is_question(*message) && events_.asked)
    return events_.asked(connection, *message);
  if (hello == nullptr) {
    log_debug(connection->name() + " does not begin with what it is");
    return connection->close();
  }
  const std::string address = address_of(*connection);
  if (auto refused = disagreement(*hello, address, plan_.self)) {
    if (refused->reason == message::Reason::kOtherRun)
      refused->text += "; that leader has been there for " + lockstep::seconds(now() - begun_ns_);
    not_let_in_.say(refused->option, address, refused->text);
    return refuse(*connection, *refused);
  }
  if (hello->looks) return tell_lead(connection);
  if (const std::string other = translation(hello->host, hello->local_address, address);
      !other.empty() && not_let_in_.may_say("translation", address))
    log_warning(other);
  const nodes::Link link = ++last_link_;
  Connection::Events events;
  events.frame = [this, link](std::string_view frame) { hear(link, frame); };
  events.ended = [this, link](const control::Failure& failure) { lose(link, failure); };
  connection->hear(std::move(events));
  make_room();
  peers_.emplace(
      link, Peer{connection, *hello, address, local_of(*connection), Deadline::in(kFirstWord)});
  if (const auto welcome = encode(message::Welcome{plan_.self.host, address}); welcome.ok())
    connection->send(*welcome);
  connection->send(failed_);
}

// It dials anew where it follows, and asks again where it does not.
void Hub::tell_lead(const std::shared_ptr<Connection>& connection) {
  if (const auto text = encode(message::Leads{leader_.attempt(), leader_.is_active()}); text.ok())
    connection->send(*text);
  let_go(connection);
}

void Hub::refuse(Connection& connection, const message::Refused& refused) {
  if (const auto text = encode(refused); text.ok()) connection.send(*text);
  let_go(connection.shared_from_this());
}

// Says goodbye; what is on its way has a second for it.
void Hub::let_go(std::shared_ptr<Connection> connection) {
  connection->close();
  leaving_.push_back(std::move(connection));
  std::erase_if(leaving_, [](const auto& one) { return one->is_over(); });
  if (leaving_.size() > kMostLeaving) leaving_.pop_front();
}

void Hub::make_room() {
  const std::size_t most_strangers =
      2 * static_cast<std::size_t>(plan_.rules.nodes) + kMoreStrangers;
  if (peers_.size() < most_strangers) return;
  Crowd strangers;
  for (const auto& [link, peer] : peers_)
    if (!leader_.has_rank(link)) strangers.add(link, peer.address);
  if (strangers.size() < most_strangers) return;
  const nodes::Link link = *strangers.first_to_go();
  log_debug("too many without a rank: the oldest one of " + peers_.at(link).address + " goes");
  drop(link);
  leader_.closed(link, now());
}

void Hub::drop_silent() {
  std::vector<nodes::Link> silent;
  for (const auto& [link, peer] : peers_)
    if (!peer.heard && peer.first_word_by.passed()) silent.push_back(link);
  for (const nodes::Link link : silent) drop(link);
}

void Hub::hear(nodes::Link link, std::string_view frame) {
  auto message = decode(frame);
  auto* word = message.ok() ? std::get_if<nodes::NodeWord>(&*message) : nullptr;
  const auto found = peers_.find(link);
  if (found == peers_.end()) return;
  if (const auto* failed = message.ok() ? std::get_if<message::Failed>(&*message) : nullptr) {
    const auto& final = leader_.final();
    const bool is_its_own = final && final->node >= 0 && final->node == leader_.rank_of(link);
    if (is_its_own && failed_.empty()) events_.failed(*failed);
    return;
  }
  if (word == nullptr) {
    log_debug(found->second.connection->name() + " says what no node says");
    found->second.connection->close();
    return lose(link, {});
  }
  if (const std::string doubt = implausible(*word, plan_.own.incarnation, now()); !doubt.empty()) {
    const Peer& peer = found->second;
    if (not_let_in_.may_say("doubt", peer.address))
      log_warning("let go: " + peer.hello.host + " (" + peer.address +
                  ") says what cannot be true: " + doubt);
    found->second.connection->close();
    return lose(link, {});
  }
  shorten(*word);
  found->second.heard = true;
  word->row.address = found->second.address;
  if (word->store && word->store->address.empty()) word->store->address = word->row.address;
  leader_.heard(link, *word, now());
  tell_changes();
  events_.news();
}

void Hub::lose(nodes::Link link, const control::Failure& failure) {
  const auto found = peers_.find(link);
  if (found == peers_.end()) return;
  log_debug(found->second.hello.host + " (" + found->second.connection->name() +
            "): " + failure.text);
  peers_.erase(found);
  // What this machine's kernel has given up is silence: the node may dial anew, or be lost by it.
  if (failure.outcome != Outcome::kUnreachable) leader_.closed(link, now());
  tell_changes();
}

// The leader has given it up: silent, or the same node has come anew.
void Hub::drop(nodes::Link link) {
  const auto found = peers_.find(link);
  if (found == peers_.end()) return;
  let_go(found->second.connection);
  peers_.erase(found);
}

void Hub::tell_all(const message::Failed& failed) {
  auto text = encode(failed);
  if (!text.ok()) return;
  failed_ = *std::move(text);
  for (const auto& [link, peer] : peers_) peer.connection->send(failed_);
}

nodes::LeaderWord Hub::exchange(const nodes::NodeWord& own) {
  leader_.heard(nodes::kOwnLink, own, now());
  tell_changes();
  nodes::LeaderWord word = leader_.word_for(nodes::kOwnLink, now());
  if (word.store && word.store->address.empty()) word.store->address = own_address();
  return word;
}

void Hub::beat() {
  leader_.tick(now());
  told_version_ = 0;
  tell_changes();
  tell_missing();
  drop_silent();
  for (const auto& listener : listeners_) listener->look();
  std::erase_if(leaving_, [](const auto& connection) { return connection->is_over(); });
  beat_ = timers_.in(star::beat(plan_.rules.limit, plan_.rules.nodes), [this] {
    beat();
    events_.news();
  });
}

void Hub::tell_missing() {
  if (leader_.phase() != nodes::Leader::Phase::kForming) {
    tell_missing_at_ = Deadline::in(kFirstLine);
  } else if (tell_missing_at_.passed()) {
    tell_missing_at_ = Deadline::in(kLineEvery);
    log_info("waiting for " + leader_.waiting_for(now()) +
             (leader_.attempt() == 0 ? plan_.where : ""));
  }
}

void Hub::tell_changes() {
  const std::vector<nodes::Link> due = leader_.take_due();
  for (const nodes::Link link : leader_.take_dropped()) drop(link);
  if (told_version_ == leader_.version()) {
    for (const nodes::Link link : due)
      if (const auto peer = peers_.find(link); peer != peers_.end()) tell(link, peer->second);
    return;
  }
  told_version_ = leader_.version();
  if (std::exchange(kept_, leader_.attempt()) != leader_.attempt()) events_.keep(leader_.record());
  for (auto& [link, peer] : peers_) tell(link, peer);
}

void Hub::tell(nodes::Link link, Peer& peer) {
  nodes::LeaderWord word = leader_.word_for(link, now());
  if (word.store && word.store->address.empty()) {
    word.store->address = !plan_.advertised.empty() ? plan_.advertised
                          : !peer.local.empty()     ? peer.local
                                                    : kLoopback;
  }
  if (!word.refusal.empty() && !std::exchange(peer.refusal_told, true))
    log_warning("not let in: " + peer.hello.host + " (" + peer.address + "): " + word.refusal);
  if (word.rank >= 0) tell_other_program(peer);
  if (const auto text = encode(word); text.ok()) peer.connection->send(*text);
}

// Of a node: who is refused has nothing to do with this run.
void Hub::tell_other_program(Peer& peer) {
  if (other_program_told_ || std::exchange(peer.compared, true)) return;
  const std::string other = other_program(peer.hello, plan_.self);
  other_program_told_ = !other.empty();
  if (!other.empty()) log_warning(other + " (it may be meant: this is said once)");
}

std::string Hub::own_address() const {
  if (!plan_.advertised.empty()) return plan_.advertised;
  for (const auto& [link, peer] : peers_)
    if (!peer.local.empty()) return peer.local;
  return kLoopback;
}

std::vector<std::string> Hub::own_addresses() const {
  std::vector<std::string> addresses{own_address()};
  if (!plan_.advertised.empty()) return addresses;
  for (const auto& [link, peer] : peers_)
    if (!peer.local.empty() && std::ranges::find(addresses, peer.local) == addresses.end())
      addresses.push_back(peer.local);
  return addresses;
}

void Hub::drop_store_clients() {
  for (const auto& listener : listeners_) listener->drop_store_clients();
}

void Hub::leave() {
  beat_.cancel();
  listeners_.clear();
  for (auto& [link, peer] : std::exchange(peers_, {})) {
    peer.connection->close();
    leaving_.push_back(peer.connection);
  }
}

bool Hub::has_left() const {
  return std::ranges::all_of(leaving_,
                             [](const auto& connection) { return connection->is_over(); });
}

}  // namespace lockstep::star

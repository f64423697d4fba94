#include "star/gathering.h"

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "base/hash.h"
#include "base/log.h"
#include "star/agreement.h"
#include "star/plausible.h"

namespace lockstep::star {
namespace {

using namespace std::chrono_literals;
using control::Connection;

constexpr auto kClaim = 5s;

}  // namespace

Gathering::Gathering(control::Timers& timers, Plan plan, Events events)
    : timers_(timers),
      plan_(std::move(plan)),
      events_(std::move(events)),
      seats_(static_cast<std::size_t>(plan_.hosts)),
      own_(plan_.own.rank.value_or(0)) {
  seats_[static_cast<std::size_t>(own_)] = Seat{plan_.own, "", std::nullopt};
  if (plan_.formed) settle(*plan_.formed);
}

Gathering::~Gathering() = default;

Result<std::unique_ptr<Gathering>> Gathering::open(Loop& loop, control::Timers& timers,
                                                   std::vector<Hub::ListenSocket> sockets,
                                                   Plan plan, Events events) {
  std::unique_ptr<Gathering> made(new Gathering(timers, std::move(plan), std::move(events)));
  for (Hub::ListenSocket& socket : sockets) {
    control::Listener::Plan listen{made->plan_.party, socket.tls, socket.on_this_machine};
    control::Listener::Events come;
    come.come = [of = made.get()](const auto& connection, std::string_view first) {
      of->come(connection, first);
    };
    come.turned_away = [of = made.get()](const control::Failure& failure) {
      of->not_let_in_.note(failure);
    };
    LOCKSTEP_ASSIGN(auto listener, control::Listener::open(loop, timers, std::move(socket.socket),
                                                           std::move(listen), std::move(come)));
    made->listeners_.push_back(std::move(listener));
  }
  made->look();
  return made;
}

void Gathering::settle(const message::Formed& formed) {
  formed_ = true;
  own_ = formed.self;
  for (std::size_t h = 0; h < seats_.size(); ++h) {
    const message::Formed::Host& host = formed.hosts[h];
    seats_[h] = Seat{{static_cast<std::int32_t>(h), host.incarnation, host.workers, host.link_port,
                      host.agent_port, formed.run},
                     host.address,
                     std::nullopt};
  }
}

std::uint64_t Gathering::run() const {
  if (plan_.formed) return plan_.formed->run;
  return std::stoull(sha256_hex(plan_.secret + "/run").substr(0, 16), nullptr, 16) | 1;
}

void Gathering::come(const std::shared_ptr<Connection>& connection, std::string_view first) {
  const auto message = decode(first);
  const auto* hello = message.ok() ? std::get_if<message::Hello>(&*message) : nullptr;
  const auto strangers = static_cast<std::size_t>(
      std::ranges::count_if(peers_, [](const auto& entry) { return entry.second.host < 0; }));
  if (hello == nullptr || strangers >= 2 * seats_.size() + kMoreStrangers) {
    log_debug(connection->name() + " does not begin with what it is, or there are too many");
    return connection->close();
  }
  const Link link = ++last_;
  const std::string address = connection->remote() ? connection->remote()->host() : "127.0.0.1";
  peers_.emplace(link, Peer{connection, *hello, address, Deadline::in(kClaim)});
  if (const auto other = disagreement(*hello, address, plan_.self))
    return refuse(link, other->option, other->text, other->reason);
  Connection::Events events;
  events.frame = [this, link](std::string_view frame) { hear(link, frame); };
  events.ended = [this, link](const control::Failure& failure) { lose(link, failure); };
  connection->hear(std::move(events));
  if (const auto welcome = encode(message::Welcome{plan_.self.host, address}); welcome.ok())
    connection->send(*welcome);
}

void Gathering::refuse(Link link, const std::string& option, const std::string& why,
                       message::Reason reason) {
  const auto found = peers_.extract(link);
  if (found.empty()) return;
  Connection& connection = *found.mapped().connection;
  not_let_in_.say(option, found.mapped().address, why);
  if (const auto text = encode(message::Refused{reason, option, why}); text.ok())
    connection.send(*text);
  connection.close();
  leaving_.push_back(found.mapped().connection);
}

void Gathering::hear(Link link, std::string_view frame) {
  auto message = decode(frame);
  const auto found = peers_.find(link);
  if (found == peers_.end()) return;
  const int host = found->second.host;
  if (const auto* who = message.ok() ? std::get_if<message::Claim>(&*message) : nullptr;
      who != nullptr && host < 0)
    return claim(link, *who);
  const auto* talk = message.ok() ? std::get_if<message::Talk>(&*message) : nullptr;
  if (talk != nullptr && host >= 0 && formed_) return events_.talk(host, talk->frame);
  log_debug(found->second.connection->name() + " says what no agent says");
  found->second.connection->close();
  lose(link);
}

// The place of an agent that was here before; its rank; or the first that is free. -1: none.
int Gathering::seat_for(const message::Claim& claim) const {
  for (std::size_t h = 0; h < seats_.size(); ++h)
    if (seats_[h] && seats_[h]->claim.incarnation == claim.incarnation) return static_cast<int>(h);
  if (formed_) return -1;
  if (claim.rank) {
    const bool is_free = *claim.rank >= 0 && *claim.rank < plan_.hosts &&
                         !seats_[static_cast<std::size_t>(*claim.rank)];
    return is_free ? *claim.rank : -1;
  }
  const auto free = std::ranges::find_if(seats_, [](const auto& seat) { return !seat; });
  return free == seats_.end() ? -1 : static_cast<int>(free - seats_.begin());
}

void Gathering::claim(Link link, const message::Claim& claim) {
  const Peer& peer = peers_.at(link);
  const std::string who = peer.hello.host + " (" + peer.address + ")";
  if (claim.run != 0 && claim.run != run()) {
    log_debug(who + " takes part in another run");
    peer.connection->close();
    lose(link);
    if (!formed_) events_.has_run(who);
    return;
  }
  const int host = claim.workers >= 1 && claim.workers <= kMostWorkersOfHost ? seat_for(claim) : -1;
  if (host >= 0) return sit(host, link, claim);
  if (formed_)
    return refuse(link, "--nnodes",
                  who + " has come to a run that has all of its " + std::to_string(plan_.hosts) +
                      " nodes; a launcher that comes later, also in the place of one that was "
                      "lost, cannot take part: the run goes on without it",
                  message::Reason::kOtherRun);
  refuse(link, "--node-rank",
         who + " claims node rank " + std::to_string(claim.rank.value_or(-1)) +
             ", which another node has; give each node one of 0 to " +
             std::to_string(plan_.hosts - 1),
         message::Reason::kOtherOption);
}

void Gathering::sit(int host, Link link, const message::Claim& claim) {
  std::optional<Seat>& seat = seats_[static_cast<std::size_t>(host)];
  if (seat && seat->link) lose(*seat->link);  // it has dialled anew
  Peer& peer = peers_.at(link);
  peer.host = host;
  seat = Seat{claim, peer.address, link};
  if (formed_) {
    if (const auto text = encode(formed_for(host)); !plan_.formed && text.ok())
      peer.connection->send(*text);
    return events_.open(host);
  }
  if (!missing().empty()) return;
  formed_ = true;
  events_.formed();
  for (std::size_t h = 0; h < seats_.size(); ++h) {
    if (!seats_[h]->link) continue;
    const int index = static_cast<int>(h);
    if (const auto text = encode(formed_for(index)); text.ok())
      peers_.at(*seats_[h]->link).connection->send(*text);
    events_.open(index);
  }
}

void Gathering::lose(Link link, const control::Failure& failure) {
  const auto found = peers_.extract(link);
  if (found.empty()) return;
  const int host = found.mapped().host;
  found.mapped().connection->close();
  if (host < 0) return;
  std::optional<Seat>& seat = seats_[static_cast<std::size_t>(host)];
  if (seat->link != link) return;
  seat->link.reset();
  if (!formed_) seat.reset();  // it may be another's, until all are there
  if (formed_ && failure.outcome != control::Outcome::kUnreachable) events_.closed(host);
}

std::string Gathering::cookie(int one, int other) const {
  Sha256 digest;
  digest.update(plan_.secret + "/" + std::to_string(std::min(one, other)) + "/" +
                std::to_string(std::max(one, other)));
  const std::string hex = digest.hex();
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

message::Formed Gathering::formed_for(int self) const {
  message::Formed formed;
  formed.self = self;
  formed.run = run();
  formed.limit_ns = plan_.self.limit_ns;
  for (std::size_t h = 0; h < seats_.size(); ++h) {
    const Seat& seat = *seats_[h];
    formed.hosts.push_back({seat.address, seat.claim.link_port, seat.claim.agent_port,
                            seat.claim.incarnation, seat.claim.workers,
                            cookie(self, static_cast<int>(h))});
  }
  return formed;
}

std::string Gathering::missing() const {
  std::string ranks;
  std::size_t here = 0;
  for (std::size_t h = 0; h < seats_.size(); ++h) {
    here += seats_[h] ? 1 : 0;
    if (!seats_[h]) ranks += (ranks.empty() ? "node " : ", node ") + std::to_string(h);
  }
  if (ranks.empty() || plan_.own.rank) return ranks;
  return std::to_string(seats_.size() - here) + " more (" + std::to_string(here) + " of " +
         std::to_string(seats_.size()) + " nodes are here)";
}

void Gathering::say(int host, const std::string& frame) {
  const std::optional<Seat>& seat = seats_[static_cast<std::size_t>(host)];
  if (!seat || !seat->link) return;
  if (const auto text = encode(message::Talk{frame}); text.ok())
    peers_.at(*seat->link).connection->send(*text);
}

void Gathering::look() {
  std::vector<Link> silent;
  for (const auto& [link, peer] : peers_)
    if (peer.host < 0 && peer.claim_by.passed()) silent.push_back(link);
  for (const Link link : silent) lose(link);
  for (const auto& listener : listeners_) listener->look();
  std::erase_if(leaving_, [](const auto& connection) { return connection->is_over(); });
  look_ = timers_.in(250ms, [this] { look(); });
}

void Gathering::leave() {
  look_.cancel();
  listeners_.clear();
  for (auto& [link, peer] : std::exchange(peers_, {})) {
    peer.connection->close();
    leaving_.push_back(peer.connection);
  }
  for (std::optional<Seat>& seat : seats_)
    if (seat) seat->link.reset();
}

bool Gathering::has_left() const {
  return std::ranges::all_of(leaving_,
                             [](const auto& connection) { return connection->is_over(); });
}

}  // namespace lockstep::star

#include "control/listener.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/text.h"
#include "control/address.h"
#include "control/sockets.h"

namespace lockstep::control {
namespace {

using namespace std::chrono_literals;

constexpr char kTlsRecord = 0x16;    // RFC 8446, section 5.1
constexpr char kStoreClient = 0x00;  // the first request of torch 2.11's TCPStore
constexpr const char* kHttpAnswer =
    "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
    "This is a port of Lockstep's launchers, which speak no HTTP.\n";

std::size_t a_quarter_of_descriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  return std::max<std::size_t>(1, limit.rlim_cur / 4);
}

bool is_store_client(int socket) {
  char first = 0;
  return ::recv(socket, &first, 1, MSG_PEEK | MSG_DONTWAIT) == 1 && first == kStoreClient;
}

bool is_http(std::string_view first) {
  for (const std::string_view method : {"GET ", "HEAD ", "POST ", "PUT ", "OPTIONS ", "DELETE "})
    if (first.starts_with(method)) return true;
  return false;
}

}  // namespace

Listener::Listener(Loop& loop, Timers& timers, UniqueFd socket, Plan plan, Events events)
    : loop_(loop),
      timers_(timers),
      socket_(std::move(socket)),
      plan_(std::move(plan)),
      events_(std::move(events)),
      door_(socket_.get(), loop, [this](UniqueFd visitor) { greet(std::move(visitor)); }) {}

Result<std::unique_ptr<Listener>> Listener::open(Loop& loop, Timers& timers, UniqueFd socket,
                                                 Plan plan, Events events) {
  plan.most_waiting = std::min(plan.most_waiting, a_quarter_of_descriptors());
  std::unique_ptr<Listener> made(
      new Listener(loop, timers, std::move(socket), std::move(plan), std::move(events)));
  LOCKSTEP_TRY(made->door_.open());
  return made;
}

Listener::~Listener() {
  for (const auto& [id, visitor] : visitors_)
    if (visitor.socket) loop_.remove(visitor.socket.get());
}

int Listener::port() const {
  const auto address = Address::local_of(socket_.get());
  return address ? address->port() : 0;
}

void Listener::drop_store_clients() {
  drops_store_clients_ = true;
  door_.let_all_in();
  drops_store_clients_ = false;
  std::erase_if(visitors_, [this](const auto& entry) {
    const UniqueFd& socket = entry.second.socket;
    const bool goes = socket && is_store_client(socket.get());
    if (!goes) return false;
    loop_.remove(socket.get());
    crowd_.remove(entry.first);
    return true;
  });
}

void Listener::greet(UniqueFd socket) {
  if (drops_store_clients_ && is_store_client(socket.get())) return;
  const auto from = Address::remote_of(socket.get());
  Visitor visitor{
      from ? from->host() : "this machine", from ? from->text() : "this machine", {}, {}, {}};
  if (plan_.on_this_machine && !is_of_this_user(socket.get()))
    return events_.turned_away(
        {Outcome::kOtherUser, "another user's program on this machine", false, visitor.host});
  if (visitors_.size() >= plan_.most_waiting) make_room();
  const std::uint64_t id = ++visits_;
  if (!loop_.add(socket.get(), [this, id] { sniff(id); }).ok()) return;
  visitor.socket = std::move(socket);
  visitor.limit = timers_.in(plan_.patience, [this, id] {
    const auto found = visitors_.find(id);
    remove(id, {Outcome::kTooLate, found->second.name + " has not said who it is within " +
                                       std::to_string(plan_.patience.count()) + " ms"});
  });
  crowd_.add(id, visitor.host);
  visitors_.emplace(id, std::move(visitor));
}

void Listener::make_room() {
  const auto goes = crowd_.first_to_go();
  if (!goes) return;
  remove(*goes, {Outcome::kTooMany, visitors_.at(*goes).name + " made room for others: " +
                                        std::to_string(visitors_.size()) +
                                        " connections have not said who they are"});
}

void Listener::remove(std::uint64_t id, Failure failure) {
  const auto found = visitors_.find(id);
  if (found == visitors_.end()) return;
  if (found->second.socket) loop_.remove(found->second.socket.get());
  const Visitor gone = std::move(found->second);
  visitors_.erase(found);
  crowd_.remove(id);
  failure.from = gone.host;
  events_.turned_away(failure);
}

// Nothing is taken from the socket: who it is for reads it from the first byte on.
void Listener::sniff(std::uint64_t id) {
  Visitor& visitor = visitors_.at(id);
  std::array<char, 16> bytes{};
  const ssize_t count = ::recv(visitor.socket.get(), bytes.data(), bytes.size(), MSG_PEEK);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0)
    return remove(id, {count == 0 ? Outcome::kGone : Outcome::kReset,
                       visitor.name + " closed the connection before it had said anything"});
  const std::string_view first(bytes.data(), static_cast<std::size_t>(count));
  loop_.remove(visitor.socket.get());
  UniqueFd socket = std::move(visitor.socket);
  const bool tls = first[0] == kTlsRecord, preface = first[0] == kPrefaceMagic[0];
  if (plan_.tls ? tls : preface) return admit(id, std::move(socket));
  if (first[0] == kStoreClient && events_.store) {
    visitors_.erase(id);
    crowd_.remove(id);
    return events_.store(std::move(socket));
  }
  const std::string& name = visitor.name;
  if (preface)
    return refuse(
        id, std::move(socket), preface_of({kKeyWanted, plan_.self.incarnation, ""}),
        {Outcome::kKeyMissing,
         name + " speaks without a key (LOCKSTEP_INSECURE=1), and this launcher has one"});
  if (tls)
    return refuse(id, std::move(socket), std::string(kNoKeyAlert),
                  {Outcome::kKeyMissing,
                   name + " has a key, and this launcher has none (LOCKSTEP_INSECURE=1)"});
  const std::string what = first[0] == kStoreClient
                               ? "it is a client of PyTorch's TCPStore: is torchrun started "
                                 "there, where 'lockstep run' should be?"
                               : "it begins with '" + for_terminal(printable(first)) + "'";
  refuse(id, std::move(socket), is_http(first) ? kHttpAnswer : "",
         {Outcome::kNotLockstep, name + " is no launcher of Lockstep: " + what});
}

void Listener::refuse(std::uint64_t id, UniqueFd socket, std::string answer,
                      const Failure& failure) {
  Connection::turn_away(loop_, timers_, std::move(socket), std::move(answer));
  remove(id, failure);
}

void Listener::admit(std::uint64_t id, UniqueFd socket) {
  Visitor& visitor = visitors_.at(id);
  Connection::Events events;
  events.frame = [this, id](std::string_view first) {
    const auto connection = visitors_.at(id).connection;
    visitors_.erase(id);
    crowd_.remove(id);
    connection->hear({});
    events_.come(connection, first);
  };
  events.ended = [this, id](const Failure& failure) { remove(id, failure); };
  visitor.connection =
      Connection::start(loop_, timers_, std::move(socket),
                        {Side::kListens, plan_.self, plan_.tls, "", visitor.name, kMostFirstBytes},
                        std::move(events));
}

}  // namespace lockstep::control

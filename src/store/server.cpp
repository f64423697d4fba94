#include "store/server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/endpoint.h"
#include "base/log.h"
#include "base/port.h"

namespace lockstep::store {
namespace {

constexpr std::size_t kReadSize = 64 << 10;
// For a connection to begin, where others wait for its place.
constexpr auto kPatience = std::chrono::seconds(1);
constexpr int kAccepts = 64;        // a turn
constexpr int kTriesForAPort = 32;  // that is free at several addresses
constexpr int kRefusalsTold = 10;

Error unavailable(const std::string& what, int number) {
  return {ErrorKind::kUnavailable, what + ": " + std::strerror(number)};
}

// SO_REUSEADDR: of an earlier run connections may linger on a given port, and of this one on the
// port that it has been given, for the next run.
Result<UniqueFd> listen_at(const std::string& address, int port, bool given) {
  const std::string where = "cannot listen on " + endpoint_text(address, port);
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int wrong =
          ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
      wrong != 0)
    return Error{ErrorKind::kUnavailable, where + ": " + ::gai_strerror(wrong)};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  UniqueFd fd(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return unavailable(where, errno);
  const int on = 1;
  const auto reuse = [&] { ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on); };
  if (given) reuse();
  if (found->ai_family == AF_INET6)
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  if (::bind(fd.get(), found->ai_addr, found->ai_addrlen) != 0) return unavailable(where, errno);
  reuse();
  if (::listen(fd.get(), SOMAXCONN) != 0) return unavailable(where, errno);
  return fd;
}

// One port at all addresses.
Result<std::vector<UniqueFd>> listen_at_all(const std::vector<std::string>& addresses, int port) {
  std::vector<UniqueFd> listeners;
  for (const std::string& address : addresses) {
    const int here = listeners.empty() ? port : port_of(listeners.front().get());
    LOCKSTEP_ASSIGN(UniqueFd listener, listen_at(address, here, port != 0));
    listeners.push_back(std::move(listener));
  }
  return listeners;
}

bool anybody_waits(int listener) {
  pollfd look{listener, POLLIN, 0};
  return ::poll(&look, 1, 0) > 0;
}

bool lacks_descriptors(int number) {
  return number == EMFILE || number == ENFILE || number == ENOBUFS || number == ENOMEM;
}

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(Loop& loop,
                                               const std::vector<std::string>& addresses, int port,
                                               const Limits& limits) {
  auto listeners = listen_at_all(addresses, port);
  for (int i = 1; i < kTriesForAPort && port == 0 && addresses.size() > 1 && !listeners.ok(); ++i)
    listeners = listen_at_all(addresses, port);
  if (!listeners.ok()) return listeners.error();
  const int number = port_of(listeners->front().get());
  return open(loop, *std::move(listeners), number, limits);
}

Result<std::unique_ptr<Server>> Server::without_listener(Loop& loop, const Limits& limits) {
  return open(loop, {}, 0, limits);
}

Result<std::unique_ptr<Server>> Server::open(Loop& loop, std::vector<UniqueFd> listeners, int port,
                                             const Limits& limits) {
  std::unique_ptr<Server> server(new Server(loop, std::move(listeners), port, limits));
  if (!server->timer_) return unavailable("timerfd_create", errno);
  LOCKSTEP_TRY(loop.add(server->timer_.get(), [at = server.get()] {
    std::uint64_t times = 0;
    if (::read(at->timer_.get(), &times, sizeof times) > 0) at->watch_listeners();
  }));
  server->watch_listeners();
  return server;
}

Server::Server(Loop& loop, std::vector<UniqueFd> listeners, int port, const Limits& limits)
    : loop_(loop),
      limits_(limits),
      listeners_(std::move(listeners)),
      timer_(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)),
      port_(port),
      buffer_(kReadSize) {
  make_tables();
}

Server::~Server() {
  for (const auto& [id, client] : clients_) loop_.remove(client.socket.get());
  for (const UniqueFd& listener : listeners_) loop_.remove(listener.get());
  if (timer_) loop_.remove(timer_.get());
}

void Server::make_tables() {
  tables_.emplace(limits_.stored,
                  [this](ClientId id, const std::string& bytes) { answer(id, bytes); });
}

void Server::begin_anew() {
  for (const auto& [id, client] : clients_) loop_.remove(client.socket.get());
  clients_.clear();
  silent_.clear();
  silent_strangers_ = strangers_ = {};
  closing_.clear();
  buffered_ = 0;
  // Clients that are to be forgotten may have made connections, and written to them, that are still
  // queued. The queue's length bounds their number; more may come while we look.
  for (const UniqueFd& listener : listeners_)
    for (int i = 0; i < 2 * SOMAXCONN; ++i)
      if (!UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)) &&
          (errno == EAGAIN || lacks_descriptors(errno)))
        break;
  make_tables();
  refusals_told_ = 0;
  told_who_goes_ = false;
  watch_listeners();
}

void Server::watch_listeners() {
  if (!std::exchange(resting_, false)) return;
  for (const UniqueFd& listener : listeners_) {
    const int fd = listener.get();
    if (!loop_.add(fd, [this, fd] { accept(fd); }).ok()) return rest();
  }
}

// Newcomers wait in the kernel's queue; the loop would only spin.
void Server::rest() {
  resting_ = true;
  for (const UniqueFd& listener : listeners_) loop_.remove(listener.get());
  itimerspec soon{};
  soon.it_value.tv_nsec = 50'000'000;
  ::timerfd_settime(timer_.get(), 0, &soon, nullptr);
  tell_it_is_full();
}

void Server::tell_it_is_full() {
  if (std::exchange(told_it_is_full_, true)) return;
  log_warning("the workers' store takes no more connections for now: it has " +
              std::to_string(clients_.size()) + ", and the limit is " +
              std::to_string(limits_.clients) + ", or descriptors have run out (ulimit -n)");
}

void Server::accept(int listener) {
  for (int i = 0; i < kAccepts && !resting_; ++i) {
    if (clients_.size() >= limits_.clients) {
      if (!anybody_waits(listener)) break;
      if (!make_room()) return rest();
    }
    UniqueFd socket(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) {
      const std::string from = comes_from(socket.get());
      welcome(std::move(socket), from, kPatience);
    } else if (lacks_descriptors(errno)) {
      if (!make_room()) return rest();
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      break;
    }  // else an error of that connection
  }
  tidy_up();
}

void Server::adopt(UniqueFd socket, const std::string& from) {
  if (clients_.size() >= limits_.clients && !make_room()) return tell_it_is_full();
  welcome(std::move(socket), from, {});
  tidy_up();
}

// A stranger; else the one of the run's that has been silent for longest, and long enough.
std::optional<ClientId> Server::first_to_go() const {
  if (const auto silent = silent_strangers_.first_to_go()) return silent;
  if (const auto stranger = strangers_.first_to_go()) return stranger;
  if (silent_.empty() || !silent_.begin()->second.passed()) return std::nullopt;
  return silent_.begin()->first;
}

bool Server::make_room() {
  const std::size_t before = clients_.size();
  while (clients_.size() == before) {
    const auto goes = first_to_go();
    if (!goes) return false;
    Client& client = clients_.at(*goes);
    const bool silent = silent_.contains(*goes);
    if (silent) read(*goes, client);  // its words may have come by now
    if (!silent || silent_.contains(*goes)) {
      if (!client.stranger.empty()) tell_who_goes(client);
      close(*goes, client);
    }
    tidy_up();
  }
  return true;
}

void Server::tell_who_goes(const Client& client) {
  if (std::exchange(told_who_goes_, true)) return;
  log_warning("the workers' store has " + std::to_string(clients_.size()) +
              " connections, and no place for more; those from other machines than the run's make "
              "room. Most of these come from " +
              client.stranger + ": does a job there have this MASTER_ADDR and MASTER_PORT?");
}

void Server::welcome(UniqueFd socket, const std::string& from, std::chrono::milliseconds patience) {
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const ClientId id = next_id_++;
  Client& client = clients_[id];
  client.socket = std::move(socket);
  if (!machines_.contains(from)) client.stranger = from;
  silent_.emplace(id, Deadline::in(patience));
  if (!client.stranger.empty()) silent_strangers_.add(id, client.stranger);
  watch(id, client, Loop::kReadable);
}

void Server::on_ready(ClientId id, Loop::Readiness readiness) {
  const auto found = clients_.find(id);
  if (found == clients_.end() || found->second.closing) return;
  if (readiness == Loop::kReadable)
    read(id, found->second);
  else
    write(id, found->second);
  tidy_up();
}

void Server::read(ClientId id, Client& client) {
  const ssize_t size = ::recv(client.socket.get(), buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (size > 0) return serve(id, client, {buffer_.data(), static_cast<std::size_t>(size)});
  if (size == 0 || (errno != EAGAIN && errno != EINTR)) close(id, client);
}

// Until all bytes are used up, or an answer has to wait.
void Server::serve(ClientId id, Client& client, std::string_view bytes) {
  while (!client.closing && client.out.empty()) {
    auto request = client.parser.next(bytes);
    if (!request.ok()) return refuse(id, client, request.error());
    if (client.parser.validated() && silent_.erase(id) > 0 && !client.stranger.empty()) {
      silent_strangers_.remove(id);
      strangers_.add(id, client.stranger);
    }
    if (!*request) break;
    if ((*request)->query == Query::kCompareSet && (*request)->keys.front() == sign_)
      recognize(client);
    const Status done = tables_->handle(id, **std::move(request), !client.stranger.empty());
    if (!done.ok()) return refuse(id, client, done.error());
  }
  client.in.assign(bytes);
  count(client);
}

void Server::recognize(const Client& client) {
  if (sign_.empty() || client.stranger.empty()) return;
  const std::string machine = client.stranger;
  machines_.insert(machine);
  for (auto& [id, other] : clients_) {
    if (other.stranger != machine) continue;
    other.stranger.clear();
    silent_strangers_.remove(id);
    strangers_.remove(id);
  }
}

void Server::answer(ClientId id, const std::string& bytes) {
  Client& client = clients_.at(id);
  if (client.closing) return;
  const std::size_t sent = client.out.empty() ? send_some(id, client, bytes) : 0;
  if (client.closing || sent == bytes.size()) return;
  if (client.out.empty()) watch(id, client, Loop::kWritable);
  client.out.append(bytes, sent);
  count(client);
}

void Server::write(ClientId id, Client& client) {
  client.sent += send_some(id, client, std::string_view(client.out).substr(client.sent));
  if (client.sent == client.out.size() && !client.closing) {
    client.out = std::string();
    client.sent = 0;
    watch(id, client, Loop::kReadable);
    const std::string in = std::exchange(client.in, {});
    serve(id, client, in);
  }
  count(client);
}

std::size_t Server::send_some(ClientId id, Client& client, std::string_view bytes) {
  const ssize_t size =
      ::send(client.socket.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (size >= 0) return static_cast<std::size_t>(size);
  if (errno != EAGAIN && errno != EINTR) close(id, client);
  return 0;
}

void Server::watch(ClientId id, Client& client, Loop::Readiness readiness) {
  loop_.remove(client.socket.get());
  if (!loop_
           .add(
               client.socket.get(), [=, this] { on_ready(id, readiness); }, readiness)
           .ok())
    close(id, client);
}

// Who has not even begun is not worth a line each.
void Server::refuse(ClientId id, Client& client, const Error& error) {
  const bool silent = silent_.contains(id);
  close(id, client);
  if (silent || refusals_told_ == kRefusalsTold) return;
  const std::string from =
      client.stranger.empty() ? "" : " from " + client.stranger + ", no machine of this run's";
  log_warning("the workers' store has closed a connection" + from + ": " + error.message);
  if (++refusals_told_ == kRefusalsTold) log_warning("more of these are not told");
}

void Server::close(ClientId id, Client& client) {
  if (std::exchange(client.closing, true)) return;
  loop_.remove(client.socket.get());
  silent_.erase(id);
  silent_strangers_.remove(id);
  strangers_.remove(id);
  closing_.push_back(id);
}

void Server::count(Client& client) {
  const std::size_t now = client.parser.held() + client.in.size() + client.out.size() - client.sent;
  buffered_ = buffered_ - std::exchange(client.counted, now) + now;
}

void Server::tidy_up() {
  for (;;) {
    while (!closing_.empty()) {
      const ClientId id = closing_.back();
      closing_.pop_back();
      buffered_ -= clients_.at(id).counted;
      tables_->drop(id);  // which may wake others
      clients_.erase(id);
    }
    if (buffered_ <= limits_.buffered) return;
    const auto largest = std::ranges::max_element(clients_, {}, [](const auto& entry) {
      const auto& [id, client] = entry;
      return std::pair(client.counted > 0 && !client.stranger.empty(), client.counted);
    });
    refuse(largest->first, largest->second,
           {ErrorKind::kUnavailable,
            "it holds " + std::to_string(largest->second.counted) +
                " bytes of requests that are not whole or of answers that are not taken, most of " +
                std::to_string(buffered_) + ", above the limit of " +
                std::to_string(limits_.buffered)});
  }
}

}  // namespace lockstep::store

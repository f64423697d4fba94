// A few hosts with links of one kind in one thread, over connections that can stall and break.
#pragma once

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/door.h"
#include "control/sockets.h"
#include "links/fake/links.h"
#include "links/links.h"

namespace lockstep::links::test {

using namespace std::chrono_literals;

inline Cookie cookie_of(HostIndex one, HostIndex other) {
  Cookie cookie{};
  cookie[0] = std::byte(std::min(one, other) + 1);
  cookie[31] = std::byte(std::max(one, other) + 1);
  return cookie;
}
inline Party party(HostIndex host, std::uint64_t incarnation = 1, std::uint64_t attempt = 7) {
  return {attempt, {host, 1}, 100 * incarnation + host};
}

// What a host's links have told, and the memory that bodies land in.
class Recorder : public Events {
 public:
  struct Frame {
    std::string header, body;
    friend bool operator==(const Frame&, const Frame&) = default;
  };
  void up(HostIndex host) override {
    ++ups[host];
    if (at_up) at_up(host);
  }
  Result<std::optional<std::span<std::byte>>> landing(HostIndex host, std::string_view header,
                                                      std::size_t bytes) override {
    landings.emplace_back(header);
    if (at_landing) at_landing(host);
    if (refuses) return Error{ErrorKind::kBadData, "refused"};
    if (bin) return std::optional<std::span<std::byte>>();
    memory[host].assign(bytes, '?');
    return std::optional(std::as_writable_bytes(std::span(memory[host])));
  }
  Status landed(HostIndex host, std::string_view header) override {
    frames[host].push_back({std::string(header), memory[host]});
    if (at_landed) at_landed(host);
    if (refuses_landed) return Error{ErrorKind::kBadData, "refused"};
    return {};
  }
  void room(HostIndex host) override {
    if (at_room) at_room(host);
  }
  void down(HostIndex host, const Failure& failure) override {
    downs[host].push_back(failure.cause);
    last = failure;
    if (at_down) at_down(host);
  }
  void cannot(HostIndex host, const Failure& failure) override {
    cannots[host].push_back(failure.cause);
    last = failure;
  }
  void turned_away(const std::string& what) override { strangers.push_back(what); }

  std::map<HostIndex, int> ups;
  std::map<HostIndex, std::vector<Cause>> downs, cannots;
  std::map<HostIndex, std::vector<Frame>> frames;
  std::map<HostIndex, std::string> memory;
  std::vector<std::string> landings, strangers;
  Failure last;
  bool refuses = false, refuses_landed = false, bin = false;
  std::function<void(HostIndex)> at_up, at_landing, at_landed, at_room, at_down;
};

// What differs between engines.
class Net {
 public:
  Net(Loop& loop, control::Timers& timers) : loop_(loop), timers_(timers) {}
  virtual ~Net() = default;
  virtual std::unique_ptr<Links> make(const Party& self, Limits limits, Events& events) = 0;
  // Where `from` finds `to`.
  virtual std::optional<control::Address> address(HostIndex from, HostIndex to) = 0;
  // Of the pair's newest connection.
  virtual Relay* relay(HostIndex one, HostIndex other) = 0;

 protected:
  Loop& loop_;
  control::Timers& timers_;
};

class FakeNet : public Net {
 public:
  using Net::Net;
  std::unique_ptr<Links> make(const Party& self, Limits limits, Events& events) override {
    return network_.make(self, limits, events);
  }
  std::optional<control::Address> address(HostIndex, HostIndex) override { return {}; }
  Relay* relay(HostIndex one, HostIndex other) override { return network_.relay(one, other); }

 private:
  FakeNetwork network_{loop_, timers_};
};

// Each pair's connections go through a port of its own, behind which a relay is.
class TcpNet : public Net {
 public:
  using Net::Net;
  std::unique_ptr<Links> make(const Party& self, Limits limits, Events& events) override {
    auto listener = control::listen_at(*control::Address::numeric("127.0.0.1", 0));
    EXPECT_TRUE(listener.ok());
    ports_[self.stay.host] = control::Address::local_of(listener->get())->port();
    auto made = make_tcp_links(loop_, timers_, *std::move(listener), self, limits, events);
    EXPECT_TRUE(made.ok());
    return *std::move(made);
  }
  std::optional<control::Address> address(HostIndex from, HostIndex to) override {
    Way& way = ways_[{std::min(from, to), std::max(from, to)}];
    if (!way.listener) {
      way.listener = *control::listen_at(*control::Address::numeric("127.0.0.1", 0));
      way.door = std::make_unique<Door>(
          way.listener.get(), loop_, [this, &way, to = std::min(from, to)](UniqueFd near) {
            UniqueFd far(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
            const auto place = control::Address::numeric("127.0.0.1", ports_[to]);
            if (::connect(far.get(), place->data(), place->size()) != 0 && errno != EINPROGRESS)
              return;
            const int on = 1;
            for (const int socket : {near.get(), far.get()})
              ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            way.relays.push_back(std::make_unique<Relay>(loop_, std::move(near), std::move(far)));
          });
      EXPECT_TRUE(way.door->open().ok());
    }
    return control::Address::local_of(way.listener.get());
  }
  Relay* relay(HostIndex one, HostIndex other) override {
    auto& relays = ways_[{std::min(one, other), std::max(one, other)}].relays;
    return relays.empty() ? nullptr : relays.back().get();
  }
  int port(HostIndex host) const { return ports_.at(host); }

 private:
  struct Way {
    UniqueFd listener;
    std::unique_ptr<Door> door;
    std::vector<std::unique_ptr<Relay>> relays;
  };
  std::map<HostIndex, int> ports_;
  std::map<std::pair<HostIndex, HostIndex>, Way> ways_;
};

struct Host {
  Recorder told;
  std::unique_ptr<Links> links;
};

class Hosts {
 public:
  explicit Hosts(bool tcp) : loop_(*Loop::open()), timers_(*control::Timers::open(loop_)) {
    if (tcp)
      net_ = std::make_unique<TcpNet>(loop_, *timers_);
    else
      net_ = std::make_unique<FakeNet>(loop_, *timers_);
    limits.ping = 20ms;
    limits.silence = 15s;  // a starved machine is not silent
  }
  ~Hosts() { hosts_.clear(); }
  Host& operator[](HostIndex host) {
    auto& made = hosts_[host];
    if (!made) made = std::make_unique<Host>();
    if (!made->links) made->links = net_->make(parties[host], limits, made->told);
    return *made;
  }
  void add(HostIndex host, const Party& party) {
    parties[host] = party;
    (void)(*this)[host];
  }
  Other other(HostIndex from, HostIndex to) {
    return {parties[to], net_->address(from, to), cookie_of(from, to)};
  }
  void open(HostIndex from, HostIndex to) { (*this)[from].links->open(other(from, to)); }
  void kill(HostIndex host) { hosts_[host]->links.reset(); }
  // Both, and waits until the pair is up.
  void join(HostIndex one, HostIndex two) {
    open(one, two);
    open(two, one);
    ASSERT_TRUE(until([&] { return are_up(one, two); }));
  }
  bool are_up(HostIndex one, HostIndex two) {
    return (*this)[one].links->is_up(two) && (*this)[two].links->is_up(one);
  }
  // False: it did not come.
  bool until(const std::function<bool()>& condition) {
    const Deadline end = Deadline::in(20s);
    while (!condition() && !end.passed()) loop_.run_once(Deadline::in(10ms));
    return condition();
  }
  void run(std::chrono::milliseconds time) {
    for (const Deadline end = Deadline::in(time); !end.passed();) loop_.run_once(end);
  }
  Relay& relay(HostIndex one, HostIndex two) { return *net_->relay(one, two); }
  Net& net() { return *net_; }

  Limits limits;
  std::map<HostIndex, Party> parties{{0, party(0)}, {1, party(1)}, {2, party(2)}};

 private:
  Loop loop_;
  std::unique_ptr<control::Timers> timers_;
  std::unique_ptr<Net> net_;
  std::map<HostIndex, std::unique_ptr<Host>> hosts_;
};

}  // namespace lockstep::links::test

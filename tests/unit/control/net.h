// A loop with a listener and those who dial it, in one process.
#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "control/dial.h"
#include "control/listener.h"
#include "control/sockets.h"

namespace lockstep::control::test {

using namespace std::chrono_literals;

inline const std::string kKeyText = "0123456789abcdef0123456789abcdef";
inline const std::string kOtherKeyText = "fedcba9876543210fedcba9876543210";

inline std::shared_ptr<const TlsSettings> tls_of(const std::string& key) {
  return *TlsSettings::of(*RunKey::of(key, "test"));
}
inline Party party(std::uint64_t incarnation) { return {kProtocol, incarnation, "1.2.3"}; }

class Net : public testing::Test {
 protected:
  void SetUp() override {
    auto made = Loop::open();
    ASSERT_TRUE(made.ok());
    loop_.emplace(*std::move(made));
    timers_ = *Timers::open(*loop_);
  }

  // False: it did not come within `limit`.
  bool run_until(const std::function<bool()>& condition, std::chrono::milliseconds limit = 20s) {
    const Deadline end = Deadline::in(limit);
    while (!condition() && !end.passed()) loop_->run_once(Deadline::in(10ms));
    return condition();
  }

  // The same in so many turns of the loop, each of up to 10 ms: for what comes by itself, later.
  bool run_turns(const std::function<bool()>& condition, int turns) {
    for (; !condition() && turns > 0; --turns) loop_->run_once(Deadline::in(10ms));
    return condition();
  }

  // Who has come, and what it has said since.
  struct Peer {
    std::shared_ptr<Connection> connection;
    std::vector<std::string> frames;
    std::optional<Failure> ended;
  };
  void hear(const std::shared_ptr<Peer>& peer) {
    Connection::Events events;
    // The peer holds the connection, which holds these.
    events.frame = [weak = std::weak_ptr(peer)](std::string_view frame) {
      if (const auto it = weak.lock()) it->frames.emplace_back(frame);
    };
    events.ended = [weak = std::weak_ptr(peer)](const Failure& failure) {
      if (const auto it = weak.lock()) it->ended = failure;
    };
    peer->connection->hear(std::move(events));
  }

  Listener::Plan listener_plan() const {
    Listener::Plan plan;
    plan.self = party(1);
    plan.tls = tls_of(kKeyText);
    return plan;
  }
  void listen(Listener::Plan plan) {
    auto socket = plan.on_this_machine ? listen_on_this_machine(port_) : listen_everywhere(0);
    ASSERT_TRUE(socket.ok()) << socket.error().message;
    Listener::Events events;
    events.come = [this](std::shared_ptr<Connection> connection, std::string_view first) {
      auto peer = std::make_shared<Peer>();
      peer->connection = std::move(connection);
      peer->frames.emplace_back(first);
      hear(peer);
      come_.push_back(std::move(peer));
    };
    if (takes_store_clients_)
      events.store = [this](UniqueFd socket_) { store_clients_.push_back(std::move(socket_)); };
    events.turned_away = [this](const Failure& failure) { turned_away_.push_back(failure); };
    auto made =
        Listener::open(*loop_, *timers_, *std::move(socket), std::move(plan), std::move(events));
    ASSERT_TRUE(made.ok());
    listener_ = *std::move(made);
    if (listener_->port() != 0) port_ = listener_->port();
  }

  Dial::Plan dial_plan(std::uint64_t incarnation = 2) const {
    Dial::Plan plan;
    plan.host = "127.0.0.1";
    plan.port = port_;
    plan.self = party(incarnation);
    plan.tls = tls_of(kKeyText);
    plan.run_id = "run";
    return plan;
  }
  struct Dialled {
    bool done = false;
    Failure failure;
    std::shared_ptr<Peer> peer;  // none: it failed
  };
  // Until it is connected, or has failed.
  Dialled dial(Dial::Plan plan) {
    Dialled result;
    const auto dial = Dial::start(*loop_, *timers_, std::move(plan),
                                  [&](std::shared_ptr<Connection> connection, const Failure& why) {
                                    result.done = true;
                                    result.failure = why;
                                    if (!connection) return;
                                    result.peer = std::make_shared<Peer>();
                                    result.peer->connection = std::move(connection);
                                    hear(result.peer);
                                  });
    EXPECT_TRUE(run_until([&] { return result.done; }));
    return result;
  }
  // Both ends of a connection.
  struct Met {
    std::shared_ptr<Peer> one, other;
  };
  Met meet(std::uint64_t incarnation = 2) {
    const Dialled dialled = dial(dial_plan(incarnation));
    EXPECT_TRUE(dialled.peer) << dialled.failure.text;
    if (!dialled.peer) return {};
    const std::size_t before = come_.size();
    dialled.peer->connection->send("hello");
    EXPECT_TRUE(run_until([&] { return come_.size() > before; }));
    return {dialled.peer, come_.back()};
  }

  // A stranger's socket, connected.
  UniqueFd stranger() const {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = Address::numeric("127.0.0.1", port_);
    EXPECT_EQ(::connect(socket.get(), address->data(), address->size()), 0);
    return socket;
  }
  // All that comes until the other side closes.
  std::string read_all(const UniqueFd& socket) {
    std::string text;
    bool over = false;
    run_until([&] {
      char bytes[4096];
      const ssize_t count = ::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (count > 0) text.append(bytes, static_cast<std::size_t>(count));
      over = over || count == 0 || (count < 0 && errno != EAGAIN);
      return over;
    });
    EXPECT_TRUE(over);
    return text;
  }

  std::optional<Loop> loop_;
  std::unique_ptr<Timers> timers_;
  std::unique_ptr<Listener> listener_;
  int port_ = 0;
  bool takes_store_clients_ = false;
  std::vector<std::shared_ptr<Peer>> come_;
  std::vector<UniqueFd> store_clients_;
  std::vector<Failure> turned_away_;
};

}  // namespace lockstep::control::test

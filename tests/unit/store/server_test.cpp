// Real sockets: who disturbs whom, and that nothing grows without a bound.
#include "store/server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "support/store_peer.h"

namespace lockstep::store {
namespace {

using namespace std::chrono_literals;

class StoreServer : public ::testing::Test {
 protected:
  void SetUp() override { open({}); }
  void TearDown() override { stop(); }
  void open(const Limits& limits, int port = 0) {
    auto loop = Loop::open();
    ASSERT_TRUE(loop.ok());
    loop_.emplace(*std::move(loop));
    auto server = Server::listen(*loop_, {"127.0.0.1"}, port, limits);
    ASSERT_TRUE(server.ok()) << server.error().message;
    server_ = *std::move(server);
    go_ = true;
    thread_ = std::thread([this] {
      while (go_) {
        loop_->run_once(Deadline::in(20ms));
        if (anew_.exchange(false)) server_->begin_anew();
        clients_ = server_->clients();
      }
    });
  }
  void stop() {
    go_ = false;
    if (thread_.joinable()) thread_.join();
    server_.reset();
    loop_.reset();
  }
  void reopen(const Limits& limits) {
    stop();
    open(limits);
  }
  void begin_anew() {
    anew_ = true;
    while (anew_) std::this_thread::sleep_for(1ms);
  }
  int port() const { return server_->port(); }

  std::optional<Loop> loop_;
  std::unique_ptr<Server> server_;
  std::atomic<bool> go_{false}, anew_{false};
  std::atomic<std::size_t> clients_{0};
  std::thread thread_;
};

[[maybe_unused]] std::size_t resident_kib() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::size_t value = 0;
  while (status >> word)
    if (word == "VmRSS:" && status >> value) return value;
  return 0;
}

TEST_F(StoreServer, ServesSeveralAtOnce) {
  const Peer a(port()), b(port());
  b.send(encode({Query::kWait, {"/k"}, {}, 0}));
  EXPECT_TRUE(a.served());
  a.send(encode({Query::kSet, {"/k"}, {"v"}, 0}));
  EXPECT_EQ(b.receive(1), std::string(1, '\0'));
  EXPECT_EQ(b.ask({Query::kGet, {"/k"}, {}, 0}, 9), text("v"));
}

TEST_F(StoreServer, RequestsMayComeInOnePiece) {
  const Peer peer(port());
  std::string all;
  for (int i = 0; i < 1000; ++i) all += encode({Query::kAdd, {"/n"}, {}, 1});
  peer.send(all);
  std::string last;
  put_64(last, 1000);
  EXPECT_EQ(peer.receive(8000).substr(7992), last);
}

TEST_F(StoreServer, GarbageClosesItsConnectionAlone) {
  const Peer good(port());
  std::string giant("\x01");
  put_64(giant, ~std::uint64_t{0});
  const std::string hello = encode({Query::kValidate, {}, {}, kMagic});
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\x16\x03\x01"), std::string(5, '\0'),
        hello + "\x7f", hello + giant, hello + hello,
        hello + encode({Query::kSet, {"/x"}, {"x"}, 0}) + encode({Query::kAdd, {"/x"}, {}, 1})}) {
    const Peer bad(port(), false);
    bad.send(bytes);
    EXPECT_TRUE(bad.closed());
    EXPECT_TRUE(good.served());
  }
}

TEST_F(StoreServer, WhatADeadClientWaitedForIsForgotten) {
  const Peer good(port());
  {
    const Peer gone(port());
    gone.send(encode({Query::kWait, {"/q"}, {}, 0}));
    EXPECT_TRUE(good.served());
  }
  good.send(encode({Query::kQueuePush, {"/q"}, {"x"}, 0}));
  EXPECT_EQ(good.ask({Query::kWait, {"/q"}, {}, 0}, 1), std::string(1, '\0'));
}

// Its answers are more than the kernel takes: it is not read from, and gets them all later.
TEST_F(StoreServer, ASlowReaderHoldsNobodyUpAndGetsEverything) {
  const Peer slow(port()), good(port());
  const std::string value(kMaxValue, 'v');
  good.send(encode({Query::kSet, {"/k"}, {value}, 0}));
  EXPECT_TRUE(good.served());
  constexpr int kAnswers = 8;
  for (int i = 0; i < kAnswers; ++i) slow.send(encode({Query::kGet, {"/k"}, {}, 0}));
  slow.send(encode({Query::kSet, {"/after"}, {"x"}, 0}));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(good.served());
  EXPECT_EQ(good.ask({Query::kCheck, {"/after"}, {}, 0}, 1), "\1");  // is not read from
  const std::string answer = text(value);
  for (int i = 0; i < kAnswers; ++i) ASSERT_EQ(slow.receive(answer.size()), answer);
  EXPECT_TRUE(slow.served());
  EXPECT_EQ(good.ask({Query::kCheck, {"/after"}, {}, 0}, 1), std::string(1, '\0'));
}

TEST_F(StoreServer, WhoHoldsMostIsClosedWhenBuffersAreFull) {
  reopen({.stored = 64 << 20, .buffered = 12 << 20, .clients = 100});
  const Peer good(port()), first(port()), second(port());
  const std::string head = encode({Query::kSet, {"/k"}, {std::string(kMaxValue, 'v')}, 0});
  const std::string part = head.substr(0, head.size() - 1);
  first.send(part);
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(good.served());
  second.send(part);
  EXPECT_TRUE(first.closed());
  second.send(head.substr(head.size() - 1));
  EXPECT_TRUE(second.served());
  EXPECT_TRUE(good.served());
}

TEST_F(StoreServer, AFullStoreClosesWhoAsksForMore) {
  reopen({.stored = 1 << 20, .buffered = 64 << 20, .clients = 100});
  const Peer good(port()), bad(port());
  good.send(encode({Query::kSet, {"/k"}, {"v"}, 0}));
  bad.send(encode({Query::kSet, {"/large"}, {std::string(2 << 20, 'x')}, 0}));
  EXPECT_TRUE(bad.closed());
  EXPECT_EQ(good.ask({Query::kGet, {"/k"}, {}, 0}, 9), text("v"));
}

// Hundreds of connections that each hold what they may: bounded.
TEST_F(StoreServer, MemoryIsBounded) {
  reopen({.stored = 8 << 20, .buffered = 16 << 20, .clients = 300});
  [[maybe_unused]] const std::size_t before = resident_kib();
  const std::string part =
      encode({Query::kSet, {"/k"}, {std::string(1 << 20, 'v')}, 0}).substr(0, 1 << 20);
  std::vector<std::unique_ptr<Peer>> flood;
  const Peer good(port());
  for (int i = 0; i < 200; ++i) {
    flood.push_back(std::make_unique<Peer>(port()));
    flood.back()->send(part);
    ASSERT_TRUE(good.served());
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep what is freed
  EXPECT_LT(resident_kib() - before, std::size_t{100} << 10);        // 200 MiB were sent
#endif
}

TEST_F(StoreServer, StrangersMakeRoomForNewcomers) {
  reopen({.stored = 1 << 20, .buffered = 1 << 20, .clients = 20});
  const Peer good(port());
  ASSERT_TRUE(good.served());
  std::vector<std::unique_ptr<Peer>> half_open;
  for (int i = 0; i < 100; ++i) half_open.push_back(std::make_unique<Peer>(port(), false));
  const Peer late(port());
  EXPECT_TRUE(late.served());
  EXPECT_TRUE(good.served());
  EXPECT_TRUE(half_open.front()->closed());
  EXPECT_LE(clients_, 20u);
}

// Beyond the limit newcomers wait; nobody spins, and they are served once there is room.
TEST_F(StoreServer, NewcomersWaitWhereConnectionsAreUsedUp) {
  reopen({.stored = 1 << 20, .buffered = 1 << 20, .clients = 3});
  auto first = std::make_unique<Peer>(port());
  const Peer second(port()), third(port());
  ASSERT_TRUE(first->served() && second.served() && third.served());
  const Peer fourth(port());
  ASSERT_TRUE(fourth.connected());
  fourth.send(encode({Query::kPing, {}, {}, 77}));
  EXPECT_TRUE(second.served());
  first.reset();
  EXPECT_EQ(fourth.receive(4), std::string("\x4d\0\0\0", 4));
}

TEST_F(StoreServer, DescriptorsMayRunOut) {
  const Peer good(port());
  ASSERT_TRUE(good.served());
  Peer waiting(port(), false);  // made before they run out, accepted or not
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  std::vector<UniqueFd> taken;
  const rlimit few{64, before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  std::vector<std::unique_ptr<Peer>> peers;
  for (;;) {  // this process has both ends
    auto peer = std::make_unique<Peer>(port());
    if (peer->fd() < 0) break;
    peers.push_back(std::move(peer));
  }
  EXPECT_TRUE(good.served());
  ::setrlimit(RLIMIT_NOFILE, &before);
  for (const auto& peer : peers) EXPECT_TRUE(peer->served());
  EXPECT_TRUE(Peer(port()).served());
}

TEST_F(StoreServer, BeginsAnew) {
  const Peer old(port());
  old.send(encode({Query::kSet, {"/k"}, {"v"}, 0}));
  ASSERT_TRUE(old.served());
  const int before = port();
  begin_anew();
  EXPECT_TRUE(old.closed());
  EXPECT_EQ(port(), before);
  const Peer fresh(port());
  std::string none;
  put_64(none, 0);
  EXPECT_EQ(fresh.ask({Query::kCountKeys, {}, {}, 0}, 8), none);
}

// A connection of before that nobody has accepted yet writes nothing into the new store.
TEST_F(StoreServer, QueuedConnectionsAreOfBefore) {
  stop();
  auto loop = Loop::open();
  auto server = Server::listen(*loop, {"127.0.0.1"}, 0);
  ASSERT_TRUE(server.ok());
  const Peer stale((*server)->port());
  stale.send(encode({Query::kSet, {"/k"}, {"stale"}, 0}));
  (*server)->begin_anew();
  EXPECT_TRUE(stale.closed());
  loop->run_once(Deadline::in(10ms));
  EXPECT_EQ((*server)->clients(), 0u);
}

TEST_F(StoreServer, AGivenPortIsUsedAgainAtOnceAndATakenOneNamed) {
  const int given = port();
  const Peer peer(given);
  ASSERT_TRUE(peer.served());
  auto second = Server::listen(*loop_, {"127.0.0.1"}, given);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kUnavailable);
  EXPECT_EQ(second.error().message,
            "cannot listen on 127.0.0.1:" + std::to_string(given) + ": Address already in use");
  stop();  // closes first: the connection lingers on the port
  open({}, given);
  EXPECT_TRUE(Peer(given).served());
}

TEST_F(StoreServer, ListensAtSeveralAddresses) {
  auto loop = Loop::open();  // the other one has a thread
  ASSERT_TRUE(loop.ok());
  auto both = Server::listen(*loop, {"127.0.0.1", "127.0.0.2"}, 0);
  ASSERT_TRUE(both.ok()) << both.error().message;
  EXPECT_FALSE(Server::listen(*loop, {"127.0.0.2"}, (*both)->port()).ok());
  EXPECT_TRUE(Server::listen(*loop, {"127.0.0.3"}, (*both)->port()).ok());
  EXPECT_FALSE(Server::listen(*loop, {"192.0.2.1"}, 0).ok());
  EXPECT_FALSE(Server::listen(*loop, {"localhost"}, 0).ok());
}

}  // namespace
}  // namespace lockstep::store

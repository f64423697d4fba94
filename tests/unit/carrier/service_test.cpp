// Two hosts' links as their processes run them, each in a thread: what agents say, and what they
// are told.
#include "carrier/service.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>

#include "carrier/messages.h"
#include "control/sockets.h"
#include "test_board.h"

namespace lockstep::carrier::test {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ServiceTest : public testing::Test {
 protected:
  struct Host {
    std::unique_ptr<TestBoard> board;
    std::atomic<bool> has_plan{true};
    Doorbell bell{};
    std::unique_ptr<Service> service;
    std::optional<control::Address> address;
    UniqueFd agent;
    std::thread thread;
    Status status;
    std::string in;
  };
  void SetUp() override {
    for (link::HostIndex h = 0; h < 2; ++h) {
      Host& host = hosts_[h];
      host.board = std::make_unique<TestBoard>(plan_, Stay{h, 1});
      auto listener = control::listen_at(*control::Address::numeric("127.0.0.1", 0));
      host.address = control::Address::local_of(listener->get());
      int ends[2];
      ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
      host.agent.reset(ends[0]);
      const auto board = [this, &host]() -> std::optional<Service::Board> {
        if (!host.has_plan) return std::nullopt;
        return Service::Board{plan_, *host.board};
      };
      auto made =
          Service::open({board, host.bell, party(h)}, UniqueFd(ends[1]), *std::move(listener));
      ASSERT_TRUE(made.ok());
      host.service = *std::move(made);
    }
  }
  void TearDown() override {
    for (Host& host : hosts_) {
      host.agent.reset();
      if (host.thread.joinable()) host.thread.join();
    }
  }
  void start() {
    for (Host& host : hosts_)
      host.thread = std::thread([&host] { host.status = host.service->run(); });
  }
  static links::Party party(link::HostIndex host) { return {1, {host, 1}, host + 10U}; }
  void say(Host& host, const std::string& bytes) {
    ASSERT_EQ(::send(host.agent.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  void obey(link::HostIndex h, const link::Orders& orders) {
    const link::HostIndex other = 1 - h;
    say(hosts_[h], encode(Obey{orders, {{party(other), hosts_[other].address, {}}}}));
  }
  // The next message of this kind.
  template <class Kind>
  std::optional<Kind> hear(Host& host) {
    for (const Deadline end = Deadline::in(20s); !end.passed();) {
      auto message = take_message(host.in);
      if (!message.ok()) return {};
      if (*message) {
        if (const auto* one = std::get_if<Kind>(&**message)) return *one;
        continue;
      }
      char bytes[4096];
      pollfd ready{host.agent.get(), POLLIN, 0};
      ::poll(&ready, 1, 100);
      const ssize_t count = ::recv(host.agent.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      if (count == 0) return {};
      if (count > 0) host.in.append(bytes, static_cast<std::size_t>(count));
    }
    return {};
  }

  TestPlan plan_{100, 3000};
  Host hosts_[2];
};

TEST_F(ServiceTest, OrdersAreAnsweredAndPairsAreTold) {
  start();
  for (link::HostIndex h = 0; h < 2; ++h) {
    obey(h, {.round = {1, 2}});
    const auto closed = hear<Closed>(hosts_[h]);
    ASSERT_TRUE(closed.has_value());
    EXPECT_EQ(closed->round, (link::Stamp{1, 2}));
  }
  for (link::HostIndex h = 0; h < 2; ++h) {
    const auto working = hear<Working>(hosts_[h]);
    ASSERT_TRUE(working.has_value());
    EXPECT_THAT(working->hosts, ElementsAre(1 - h));
  }
  obey(0, {.round = {1, 3}, .closed = {1}});
  ASSERT_EQ(hear<Closed>(hosts_[0])->round, (link::Stamp{1, 3}));
  EXPECT_THAT(hear<Working>(hosts_[0])->hosts, IsEmpty());
  EXPECT_THAT(hear<Working>(hosts_[1])->hosts, IsEmpty());
  EXPECT_THAT(hear<Line>(hosts_[1])->text, HasSubstr("node 0"));
}

TEST_F(ServiceTest, ARingSendsWhatIsMarked) {
  coord::Table table{.txn = Txn(0), .generation = {}, .members = {}};
  for (link::HostIndex host = 0; host < 2; ++host) {
    table.members.push_back({coord::uid_of({host, 1}, 1), Slot(0)});
    table.hosts.push_back({{host, 1}, 1});
  }
  const Item record{.txn = Txn(0), .kind = Kind::kRecord, .index = 0};
  hosts_[0].board->put(table);
  hosts_[0].board->put(record);
  start();
  for (link::HostIndex h = 0; h < 2; ++h) obey(h, {});
  ring(hosts_[0].bell);
  ASSERT_TRUE(hear<Working>(hosts_[1]).has_value());
  const Deadline end = Deadline::in(20s);
  while (hosts_[1].board->landings.load() < 2 && !end.passed()) pause(1ms);
  TearDown();
  EXPECT_EQ(hosts_[1].board->mark(record), 1U);
  EXPECT_NE(hosts_[1].board->table(0), nullptr);
}

TEST_F(ServiceTest, ItObeysBeforeThereIsAPlan) {
  hosts_[1].has_plan = false;
  TearDown();
  SetUp();
  start();
  for (link::HostIndex h = 0; h < 2; ++h) {
    obey(h, {.round = {1, 2}});
    ASSERT_EQ(hear<Closed>(hosts_[h])->round, (link::Stamp{1, 2}));
  }
  hosts_[1].has_plan = true;
  ring(hosts_[1].bell);
  for (link::HostIndex h = 0; h < 2; ++h)
    EXPECT_THAT(hear<Working>(hosts_[h])->hosts, ElementsAre(1 - h));
}

TEST_F(ServiceTest, ItEndsWithItsAgent) {
  start();
  TearDown();
  EXPECT_TRUE(hosts_[0].status.ok() && hosts_[1].status.ok());
}

TEST_F(ServiceTest, WhatIsNoMessageEndsIt) {
  start();
  say(hosts_[0], std::string(8, '\xff'));
  say(hosts_[1], encode(Line{"x"}));
  for (Host& host : hosts_) host.thread.join();
  EXPECT_THAT(hosts_[0].status.error().message, HasSubstr("a message says 4294967295 bytes"));
  EXPECT_THAT(hosts_[1].status.error().message, HasSubstr("what a link says"));
}

TEST(LinkMessages, AreReadAgainInPieces) {
  Obey obey{{.round = {3, 4}, .closed = {1, 2}, .out = {{2, 1}}, .fills = {{1, link::table_of(3)}}},
            {{{1, {2, 3}, 4}, control::Address::numeric("10.0.0.1", 29401), {std::byte{7}}}}};
  const std::string bytes = encode(obey) + encode(Line{"hello"});
  std::string in;
  std::vector<Message> read;
  for (const char byte : bytes) {
    in += byte;
    auto message = take_message(in);
    ASSERT_TRUE(message.ok());
    if (*message) read.push_back(**message);
  }
  ASSERT_EQ(read.size(), 2U);
  EXPECT_EQ(encode(read[0]) + encode(read[1]), bytes);
  const auto& other = std::get<Obey>(read[0]).others.at(0);
  EXPECT_EQ(other.address->text(), "10.0.0.1:29401");
  EXPECT_EQ(other.cookie[0], std::byte{7});
}

}  // namespace
}  // namespace lockstep::carrier::test

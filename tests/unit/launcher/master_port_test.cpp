// Where workers meet, in each of its forms on several nodes.
#include "launcher/store/master_port.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <memory>
#include <string>

#include "base/log.h"
#include "base/port.h"
#include "control/look_up.h"
#include "support/store_peer.h"

namespace lockstep::launcher {
namespace {

using store::alongside;
using store::encode;
using store::Peer;
using store::Query;
using testing::HasSubstr;

class MasterPorts : public ::testing::Test {
 protected:
  bool served(const Peer& peer) {
    return alongside(loop_, [&] { return peer.served(); });
  }
  bool closed(const Peer& peer) {
    return alongside(loop_, [&] { return peer.closed(); });
  }
  Result<MasterPort> open(const MasterPort::OnNode& node) {
    return MasterPort::open_on_node(node, loop_);
  }
  std::string keys(const Peer& peer) {
    std::string number;
    alongside(loop_, [&] {
      number = peer.ask({Query::kCountKeys, {}, {}, 0}, 8);
      return true;
    });
    return number;
  }
  Loop loop_ = *Loop::open();
};

// A port that is free, or taken while the socket lives.
UniqueFd taken_port(bool listens) {
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  EXPECT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_TRUE(!listens || ::listen(socket.get(), 16) == 0);
  return socket;
}
int free_port() { return port_of(taken_port(false).get()); }
const std::string kNone(8, '\0');

TEST_F(MasterPorts, AStoreIsServedToOthersAndAtHome) {
  auto port = open({.addresses = {"127.0.0.2"}});
  ASSERT_TRUE(port.ok()) << port.error().message;
  EXPECT_TRUE(port->serves_store());
  const Peer other(port->number(), true, "127.0.0.2"), at_home(port->number());
  EXPECT_TRUE(served(other) && served(at_home));
  EXPECT_FALSE(Peer(port->number(), true, "127.0.0.3").connected());  // nowhere else
  other.send(encode({Query::kSet, {"/k"}, {"v"}, 0}));
  EXPECT_TRUE(served(other));
  EXPECT_NE(keys(at_home), kNone);
}

TEST_F(MasterPorts, EachAttemptHasAFreshPortAndAnEmptyStore) {
  auto port = open({.addresses = {"127.0.0.2"}});
  ASSERT_TRUE(port.ok());
  const int first = port->number();
  const Peer old(first);
  old.send(encode({Query::kSet, {"/k"}, {"v"}, 0}));
  ASSERT_TRUE(served(old));
  port->begin_anew();
  EXPECT_NE(port->number(), first);
  EXPECT_TRUE(closed(old));
  EXPECT_FALSE(Peer(first).connected());
  EXPECT_EQ(keys(Peer(port->number(), true, "127.0.0.2")), kNone);
}

TEST_F(MasterPorts, AGivenPortStays) {
  const int given = free_port();
  auto port = open({.addresses = {"127.0.0.2"}, .port = given, .control_port = given + 1});
  ASSERT_TRUE(port.ok()) << port.error().message;
  const Peer old(given);
  old.send(encode({Query::kSet, {"/k"}, {"v"}, 0}));
  ASSERT_TRUE(served(old));
  port->begin_anew();
  EXPECT_EQ(port->number(), given);
  EXPECT_TRUE(closed(old));
  EXPECT_EQ(keys(Peer(given)), kNone);
}

TEST_F(MasterPorts, WhoHasAGivenPortIsNamed) {
  const UniqueFd taken = taken_port(true);
  const auto port = open({.addresses = {"127.0.0.2"}, .port = port_of(taken.get())});
  ASSERT_FALSE(port.ok());
  EXPECT_EQ(port.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(port.error().message, HasSubstr("127.0.0.2:" + std::to_string(port_of(taken.get()))));
  EXPECT_THAT(port.error().message, HasSubstr("(process " + std::to_string(::getpid())));
}

// The launchers' port: clients come by their listener, and by nothing else.
TEST_F(MasterPorts, TheLaunchersPortIsShared) {
  const UniqueFd listener = taken_port(true);
  const int number = port_of(listener.get());
  auto port = open({.addresses = {"127.0.0.2"}, .port = number, .control_port = number});
  ASSERT_TRUE(port.ok()) << port.error().message;
  EXPECT_TRUE(port->serves_store());
  EXPECT_EQ(port->number(), number);
  const auto come = [&](const char* to = "127.0.0.1") {
    auto peer = std::make_unique<Peer>(number, true, to);
    port->adopt(UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    return peer;
  };
  const auto old = come();
  old->send(encode({Query::kSet, {"/k"}, {"v"}, 0}));
  ASSERT_TRUE(served(*old));
  port->begin_anew();
  EXPECT_TRUE(closed(*old));
  EXPECT_EQ(port->number(), number);
  EXPECT_EQ(keys(*come()), kNone);
  EXPECT_TRUE(served(*come("127.0.0.2")));
}

// Their listener is on all addresses, and the store has no key.
TEST_F(MasterPorts, AtAnotherAddressOfTheLaunchersPortNobodyIsServed) {
  const UniqueFd listener = taken_port(true);
  const int number = port_of(listener.get());
  const auto come = [&](MasterPort& port, const char* to) {
    auto peer = std::make_unique<Peer>(number, true, to);
    port.adopt(UniqueFd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    return peer;
  };
  std::string log;
  const LogSink sink([&](std::string_view line) { log += line; });
  auto shared = open({.addresses = {"127.0.0.2"}, .port = number, .control_port = number});
  ASSERT_TRUE(shared.ok()) << shared.error().message;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(closed(*come(*shared, "127.0.0.3")));
  EXPECT_THAT(log, HasSubstr("it came to 127.0.0.3:" + std::to_string(number)));
  EXPECT_EQ(std::ranges::count(log, '\n'), 1) << log;
  EXPECT_TRUE(served(*come(*shared, "127.0.0.2")));
  // Nor where the store has a port of its own.
  auto own = open({.addresses = {"127.0.0.2"}, .control_port = number});
  ASSERT_TRUE(own.ok()) << own.error().message;
  EXPECT_TRUE(closed(*come(*own, "127.0.0.2")));
}

TEST_F(MasterPorts, WhereWorkersServeItTheirPortIsHeld) {
  const int given = free_port();
  auto port = open({.addresses = {"127.0.0.2"}, .port = given, .share_store = false});
  ASSERT_TRUE(port.ok()) << port.error().message;
  EXPECT_FALSE(port->serves_store());
  EXPECT_EQ(port->number(), given);
  EXPECT_FALSE(Peer(given).connected());
  UniqueFd worker(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));  // as PyTorch's store does
  const int on = 1;
  ::setsockopt(worker.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in6 all{};
  all.sin6_family = AF_INET6;
  all.sin6_port = htons(static_cast<std::uint16_t>(given));
  EXPECT_EQ(::bind(worker.get(), reinterpret_cast<sockaddr*>(&all), sizeof all), 0);
  EXPECT_EQ(::listen(worker.get(), 16), 0);
  port->adopt(std::move(worker));  // nobody serves it: closed
}

// They could not listen where the launchers do.
TEST_F(MasterPorts, TheLaunchersPortIsNotForWorkersThatServe) {
  const UniqueFd listener = taken_port(true);
  const int number = port_of(listener.get());
  const auto port = open(
      {.addresses = {"127.0.0.2"}, .port = number, .control_port = number, .share_store = false});
  ASSERT_TRUE(port.ok()) << port.error().message;
  EXPECT_FALSE(port->serves_store());
  EXPECT_NE(port->number(), number);
  EXPECT_NE(port->number(), 0);
}

// Some nodes may reach this one by the one, some by the other.
TEST_F(MasterPorts, AreOfBothFamilies) {
  if (control::own_addresses("::1", Deadline::in({})).empty())
    GTEST_SKIP() << "no IPv6 on this machine";
  auto port = open({.addresses = {"::1", "127.0.0.2"}});
  ASSERT_TRUE(port.ok()) << port.error().message;
  EXPECT_TRUE(served(Peer(port->number(), true, "127.0.0.2")));
  EXPECT_TRUE(served(Peer(port->number(), true, "::1")));
  EXPECT_TRUE(served(Peer(port->number())));
}

TEST_F(MasterPorts, AnAddressOfAnotherMachineIsSaid) {
  const auto port = open({.addresses = {"192.0.2.1"}});
  ASSERT_FALSE(port.ok());
  EXPECT_THAT(port.error().message, HasSubstr("cannot listen on 192.0.2.1:0"));
  EXPECT_THAT(port.error().message, HasSubstr("the workers' store"));
}

}  // namespace
}  // namespace lockstep::launcher

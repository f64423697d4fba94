// Who leads, where it listens, and what is said where nobody does; whether an earlier launcher's
// workers live.
#include "launcher/nodes/meeting.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "control/address.h"
#include "control/sockets.h"
#include "launcher/nodes/node_lock.h"
#include "support/temp_folder.h"

namespace lockstep::launcher {
namespace {

using control::Address;
using control::Failure;
using control::Outcome;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kNobodys = "192.0.2.1";  // RFC 5737

class Meetings : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::chmod(key_.c_str(), 0600), 0); }
  static int free_port() {
    const auto socket = control::listen_everywhere(0);
    return Address::local_of(socket->get())->port();
  }
  NodesOptions options(const std::string& host, std::optional<int> rank = std::nullopt) const {
    NodesOptions made;
    made.nnodes = 3;
    made.endpoint_host = host;
    made.endpoint_port = port_;
    made.node_rank = rank;
    made.is_static = true;
    made.key_file = key_;
    return made;
  }
  static bool leads(const NodesOptions& options) {
    const auto meeting = find_meeting(options);
    EXPECT_TRUE(meeting.ok()) << meeting.error().message;
    return meeting.ok() && meeting->leads;
  }
  // Of an interface; "": there is none but the loopback.
  static std::string own_address() {
    const auto all = control::interfaces();
    for (const control::Interface& each : *all)
      if (!each.address.is_loopback()) return each.address.host();
    return "";
  }
  static std::vector<std::string> sockets(const Meeting& meeting) {
    std::vector<std::string> places;
    for (const auto& door : meeting.sockets)
      places.push_back(Address::local_of(door.socket.get())->host());
    return places;
  }

  std::string log_;
  LogSink sink_{[this](std::string_view line) { log_ += line; }};
  const test::TempFolder folder_;
  const std::string key_ = folder_.write("key", "0123456789abcdef0123456789abcdef\n");
  const int port_ = free_port();
};

TEST_F(Meetings, AtALoopbackEndpointTheFirstNodeLeads) {
  EXPECT_TRUE(leads(options("localhost", 0)));
  EXPECT_FALSE(leads(options("localhost", 1)));
  EXPECT_TRUE(leads(options("127.0.0.1"))) << "whoever comes first";
  const auto first = find_meeting(options("127.0.0.1"));
  ASSERT_TRUE(first.ok() && first->leads && first->on_this_machine);
  EXPECT_FALSE(first->tls);
  EXPECT_FALSE(leads(options("127.0.0.1")));
  EXPECT_FALSE(leads(options("::1", 0)));
}

TEST_F(Meetings, IsHostOverrulesIt) {
  NodesOptions with = options("localhost", 0);
  with.is_host = false;
  EXPECT_FALSE(leads(with));
  with = options("localhost", 2);
  with.is_host = true;
  const auto first = find_meeting(with);
  ASSERT_TRUE(first.ok() && first->leads);
  const auto second = find_meeting(with);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(second.error().message, HasSubstr("leave --rdzv-conf is_host=true out"));
  EXPECT_EQ(log_, "");
}

// Where each launcher is told that it leads, each waits for the others.
TEST_F(Meetings, WhoLeadsElsewhereThanAtTheEndpointIsWarned) {
  NodesOptions with = options(kNobodys);
  EXPECT_FALSE(leads(with));
  EXPECT_EQ(log_, "");
  with.is_host = true;
  EXPECT_TRUE(leads(with));
  EXPECT_THAT(log_, AllOf(HasSubstr("is_host=true"), HasSubstr(kNobodys)));
}

TEST_F(Meetings, WhoHasTheEndpointsAddressLeads) {
  const auto all = control::interfaces();
  ASSERT_TRUE(all.ok());
  if (std::ranges::all_of(*all, [](const auto& each) { return each.address.is_loopback(); }))
    GTEST_SKIP() << "no network interface but the loopback on this machine";
  for (const control::Interface& each : *all) {
    if (each.address.is_loopback()) continue;
    const auto first = find_meeting(options(each.address.host(), 2));
    ASSERT_TRUE(first.ok()) << first.error().message;
    EXPECT_TRUE(first->leads && first->tls && !first->on_this_machine);
    const auto second = find_meeting(options(each.address.host(), 0));
    ASSERT_TRUE(second.ok()) << second.error().message;
    EXPECT_FALSE(second->leads);
    EXPECT_THAT(second->taken, HasSubstr("process " + std::to_string(::getpid())));
    EXPECT_EQ(who_leads(options(each.address.host()), *second, {}), second->taken);
  }
}

// The store at the launchers' port is on 127.0.0.1 of its machine.
TEST_F(Meetings, AtALocalAddressOwnWorkersComeByTheLoopback) {
  const std::string own = own_address();
  if (own.empty()) GTEST_SKIP() << "no network interface but the loopback on this machine";
  NodesOptions with = options(kNobodys);
  with.is_host = true;
  with.local_addr = own;
  {
    const auto meeting = find_meeting(with);
    ASSERT_TRUE(meeting.ok()) << meeting.error().message;
    EXPECT_THAT(sockets(*meeting), ElementsAre(own, "127.0.0.1"));
    EXPECT_TRUE(meeting->sockets[1].tls);
  }
  with.is_static = false;  // the store has a port of its own
  EXPECT_THAT(sockets(*find_meeting(with)), ElementsAre(own));
  with.is_static = true;
  const auto taker = control::listen_at(*Address::numeric("127.0.0.1", port_));
  const auto meeting = find_meeting(with);
  ASSERT_FALSE(meeting.ok());
  EXPECT_THAT(meeting.error().message, AllOf(HasSubstr("127.0.0.1:" + std::to_string(port_)),
                                             HasSubstr("process " + std::to_string(::getpid()))));
}

// Who dials the endpoint finds the leader, whatever --local-addr says of the workers' way.
TEST_F(Meetings, TheEndpointIsListenedAtBesideALocalAddress) {
  const auto all = control::interfaces();
  ASSERT_TRUE(all.ok());
  std::vector<std::string> own;
  for (const control::Interface& each : *all)
    if (!each.address.is_loopback()) own.push_back(each.address.host());
  if (own.size() < 2) GTEST_SKIP() << "one address alone on this machine's interfaces";
  NodesOptions with = options(own[0]);
  with.local_addr = own[1];
  with.is_static = false;
  const auto meeting = find_meeting(with);
  ASSERT_TRUE(meeting.ok()) << meeting.error().message;
  EXPECT_THAT(sockets(*meeting), ElementsAre(own[1], own[0]));
}

TEST_F(Meetings, WhatIsNoAddressHereIsRefused) {
  NodesOptions with = options(kNobodys);
  with.local_addr = "192.0.2.7";
  EXPECT_EQ(find_meeting(with).error().kind, ErrorKind::kUsage);
  for (const char* local : {"127.0.0.1", "0.0.0.0", "127.0.0.2", "::1", "localhost"}) {
    with.local_addr = local;
    const auto meeting = find_meeting(with);
    ASSERT_FALSE(meeting.ok()) << local;
    EXPECT_THAT(meeting.error().message, AllOf(HasSubstr("--local-addr"), HasSubstr(local)));
  }
  for (const char* host : {"0.0.0.0", "::", "0", "224.0.0.1", "ff02::1", "255.255.255.255"}) {
    const auto meeting = find_meeting(options(host));
    ASSERT_FALSE(meeting.ok()) << host;
    EXPECT_EQ(meeting.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(meeting.error().message, AllOf(HasSubstr(host), HasSubstr("no machine's address")));
  }
}

// The dial has found that the name leads here. A resolver that does not answer holds nobody up.
TEST_F(Meetings, WhoIsRefusedByItsOwnMachineLooksUpNothing) {
  const NodesOptions with = options("nowhere.invalid");
  Meeting meeting;
  ASSERT_TRUE(look_again(with, meeting).ok());
  EXPECT_TRUE(meeting.leads);
  Meeting second;
  ASSERT_TRUE(look_again(with, second).ok());
  EXPECT_FALSE(second.leads);
  NodesOptions never = with;
  never.is_host = false;
  Meeting third;
  ASSERT_TRUE(look_again(never, third).ok());
  EXPECT_FALSE(third.leads);
  EXPECT_EQ(third.taken, "");
}

// Somebody's outgoing connection may have the endpoint's port, and a user may have none below 1024.
TEST_F(Meetings, APortThatCannotBeHadIsToldOrRefused) {
  const NodesOptions with = options("nowhere.invalid");
  const Failure refused{Outcome::kRefused, "refused", true};
  const auto server = control::listen_at(*Address::numeric("127.0.0.1", 0));
  const auto remote = Address::local_of(server->get());
  UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto local = Address::numeric("127.0.0.1", port_);
  ASSERT_EQ(::bind(client.get(), local->data(), local->size()), 0);
  ASSERT_EQ(::connect(client.get(), remote->data(), remote->size()), 0);
  Meeting meeting;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(look_again(with, meeting).ok());
    EXPECT_FALSE(meeting.leads);
  }
  const auto says = AllOf(HasSubstr("cannot listen on port " + std::to_string(port_)),
                          HasSubstr("process " + std::to_string(::getpid())));
  EXPECT_THAT(who_leads(with, meeting, refused), says);
  EXPECT_THAT(log_, AllOf(says, HasSubstr("another port, the same one on all nodes")));
  EXPECT_EQ(log_.find("cannot lead"), log_.rfind("cannot lead")) << "told once";
  const linger at_once{1, 0};
  ::setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  client.reset();
  ASSERT_TRUE(look_again(with, meeting).ok());
  EXPECT_TRUE(meeting.leads) << "it is tried again";
  EXPECT_EQ(who_leads(with, meeting, refused), "");
}

TEST_F(Meetings, APortThatIsNotPermittedIsRefused) {
  NodesOptions with = options("nowhere.invalid");
  with.endpoint_port = 1;
  const uid_t self = ::geteuid();
  ASSERT_EQ(::seteuid(self == 0 ? 65'534 : self), 0);
  Meeting meeting;
  const Status status = look_again(with, meeting);
  ASSERT_EQ(::seteuid(self), 0);
  if (meeting.leads) GTEST_SKIP() << "all ports are all users' here";
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(status.error().message, AllOf(HasSubstr("cannot listen on port 1: Permission denied"),
                                            HasSubstr("the same one on all nodes")));
}

TEST_F(Meetings, WhatIsMissingIsSaid) {
  const Failure here{Outcome::kRefused, "refused", true}, there{Outcome::kRefused, "refused"};
  Meeting meeting;
  EXPECT_THAT(who_leads(options("host1"), meeting, there),
              HasSubstr("the launcher of that machine leads: start it there"));
  EXPECT_EQ(who_leads(options("host1"), meeting, here), "");
  EXPECT_THAT(who_leads(options("host1"), meeting, {Outcome::kDropped, "no answer"}),
              HasSubstr("the endpoint is not here: " + control::addresses_here()));
  NodesOptions with = options("host1");
  with.is_host = false;
  EXPECT_THAT(who_leads(with, meeting, here), HasSubstr("is_host=false"));
  meeting.on_this_machine = true;
  EXPECT_THAT(who_leads(options("localhost", 2), meeting, here),
              AllOf(HasSubstr("--node-rank 0 on this machine"), HasSubstr("--node-rank 2")));
  EXPECT_EQ(who_leads(options("localhost", 0), meeting, here), "");
}

TEST(NodeLocks, AreHeldUntilTheLastWhoHasThemIsGone) {
  const std::string node = "test " + std::to_string(::getpid());
  std::optional<NodeLock> first(node);
  NodeLock next(node), other(node + " of another rank");
  EXPECT_FALSE(first->is_held());
  ASSERT_TRUE(first->take());
  EXPECT_TRUE(first->take());
  EXPECT_TRUE(other.take());
  EXPECT_FALSE(next.take());
  UniqueFd worker(::dup(first->fd()));
  first.reset();
  EXPECT_FALSE(next.take()) << "a worker of it lives";
  worker.reset();
  EXPECT_TRUE(next.take());
}

TEST(NodeLocks, AreOfOneMachineAndOneNode) {
  const NodeLock one("a"), same("a"), other("b");
  EXPECT_EQ(one.machine(), same.machine());
  EXPECT_NE(one.machine(), other.machine());
  EXPECT_THAT(one.machine(), testing::MatchesRegex("[0-9a-f-]{36}/[0-9]+/lockstep-lock-.*"));
}

}  // namespace
}  // namespace lockstep::launcher

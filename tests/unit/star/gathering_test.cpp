// Hosts of a linked program gather at their leader, over real sockets.
#include "star/gathering.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "star/notice.h"
#include "star_test.h"

namespace lockstep::star {
namespace {

using testing::HasSubstr;

class GatheringTest : public test::StarTest {
 protected:
  struct Host {
    std::unique_ptr<Spoke> spoke;
    std::optional<message::Formed> formed;
    std::vector<std::string> heard;
    std::optional<nodes::Final> refused;
  };

  void gather(std::optional<std::int32_t> rank = 0,
              std::optional<message::Formed> told = std::nullopt) {
    auto socket = control::listen_everywhere(port);
    ASSERT_TRUE(socket.ok());
    port = control::Address::local_of(socket->get())->port();
    std::vector<Hub::ListenSocket> sockets;
    sockets.push_back({*std::move(socket), test::tls_of(test::kKey), false});
    Gathering::Plan plan;
    plan.hosts = rules.nodes;
    plan.own = {rank, 1, 2, 7000, 0, 0};
    plan.self = hello(0);
    plan.self.rank_given = rank.has_value();
    plan.self.limit_ns = rules.limit;
    plan.party = {control::kProtocol, 1, "1.2.3"};
    plan.secret = "secret";
    plan.formed = std::move(told);
    Gathering::Events events;
    events.formed = [this] { ++formed; };
    events.open = [this](int host) {
      ++opened[host];
      gathering->say(host, "to " + std::to_string(host));
    };
    events.talk = [this](int host, const std::string& frame) {
      heard.push_back(std::to_string(host) + ": " + frame);
    };
    events.closed = [this](int host) { ++closed[host]; };
    events.has_run = [this](const std::string& who) { has_run = who; };
    auto made = Gathering::open(*loop, *timers, std::move(sockets), std::move(plan), events);
    ASSERT_TRUE(made.ok());
    gathering = *std::move(made);
  }
  Spoke::Plan plan_of(std::uint64_t incarnation, std::optional<std::int32_t> rank,
                      std::uint32_t protocol = control::kProtocol) {
    Spoke::Plan plan;
    plan.host = "127.0.0.1";
    plan.port = port;
    plan.self = hello(static_cast<int>(incarnation));
    plan.self.rank_given = rank.has_value();
    plan.party = {protocol, incarnation, "1.2.3"};
    plan.tls = test::tls_of(test::kKey);
    plan.limit_ns = rules.limit;
    return plan;
  }
  Host& come(std::uint64_t incarnation, std::optional<std::int32_t> rank, std::uint64_t run = 0,
             std::uint32_t protocol = control::kProtocol) {
    hosts.push_back(std::make_unique<Host>());
    Host* host = hosts.back().get();
    Spoke::Events events;
    events.open = [host, incarnation, rank, run] {
      host->spoke->tell(message::Claim{rank, incarnation, 3, 7001, 7002, run});
    };
    events.closed = [] {};
    events.refused = [host](const nodes::Final& why) { host->refused = why; };
    events.of_hosts = [host](const Message& message) {
      if (const auto* one = std::get_if<message::Formed>(&message)) host->formed = *one;
      if (const auto* talk = std::get_if<message::Talk>(&message))
        host->heard.push_back(talk->frame);
    };
    host->spoke = std::make_unique<Spoke>(*loop, *timers, plan_of(incarnation, rank, protocol),
                                          std::move(events));
    return *host;
  }
  bool until(const std::function<bool()>& condition) {
    const Deadline end = Deadline::in(std::chrono::seconds(20));
    while (!condition() && !end.passed())
      loop->run_once(Deadline::in(std::chrono::milliseconds(2)));
    return condition();
  }

  std::unique_ptr<Gathering> gathering;
  std::vector<std::unique_ptr<Host>> hosts;
  int formed = 0;
  std::map<int, int> opened, closed;
  std::vector<std::string> heard;
  std::string has_run;
};

TEST_F(GatheringTest, AllAreToldWhoTakesPartOnceAllHaveCome) {
  gather();
  Host& second = come(12, 2);
  ASSERT_TRUE(until([&] { return gathering->missing() == "node 1"; }));
  EXPECT_FALSE(second.formed);
  Host& first = come(11, 1);
  ASSERT_TRUE(until([&] { return !first.heard.empty() && !second.heard.empty(); }));
  EXPECT_EQ(formed, 1);
  EXPECT_EQ(first.formed->self, 1);
  EXPECT_EQ(second.formed->self, 2);
  EXPECT_EQ(second.formed->limit_ns, rules.limit);
  EXPECT_EQ(second.heard, std::vector<std::string>{"to 2"});
  ASSERT_EQ(first.formed->hosts.size(), 3U);
  EXPECT_EQ(first.formed->hosts[0].address, "");
  EXPECT_EQ(first.formed->hosts[2].address, "127.0.0.1");
  EXPECT_EQ(first.formed->hosts[2].incarnation, 12U);
  EXPECT_EQ(first.formed->hosts[2].link_port, 7001);
  // A cookie is of a pair: both ends have the same, and nobody else.
  EXPECT_EQ(first.formed->hosts[2].cookie, second.formed->hosts[1].cookie);
  EXPECT_NE(first.formed->hosts[2].cookie, first.formed->hosts[0].cookie);
  EXPECT_EQ(first.formed->hosts[2].cookie.size(), 32U);
  second.spoke->tell(message::Talk{"hello"});
  ASSERT_TRUE(until([&] { return !heard.empty(); }));
  EXPECT_EQ(heard, std::vector<std::string>{"2: hello"});
}

TEST_F(GatheringTest, WithoutRanksTheyGetThemAsTheyCome) {
  gather(std::nullopt);
  Host& one = come(11, std::nullopt);
  ASSERT_TRUE(until([&] { return gathering->missing() == "1 more (2 of 3 nodes are here)"; }));
  Host& two = come(12, std::nullopt);
  ASSERT_TRUE(until([&] { return one.formed && two.formed; }));
  EXPECT_EQ(one.formed->self, 1);
  EXPECT_EQ(two.formed->self, 2);
}

TEST_F(GatheringTest, ARankThatIsTakenAndWhoComesLaterAreRefused) {
  gather();
  Host& first = come(11, 1);
  ASSERT_TRUE(until([&] { return gathering->missing() == "node 2"; }));
  Host& again = come(13, 1);
  ASSERT_TRUE(until([&] { return again.refused.has_value(); }));
  EXPECT_EQ(again.refused->code, 2);
  EXPECT_THAT(again.refused->text, HasSubstr("claims node rank 1, which another node has"));
  come(12, 2);
  ASSERT_TRUE(until([&] { return first.formed.has_value(); }));
  Host& late = come(14, 2);
  ASSERT_TRUE(until([&] { return late.refused.has_value(); }));
  EXPECT_EQ(late.refused->code, 69);
  EXPECT_THAT(late.refused->text, HasSubstr("cannot take part"));
}

// It tries again and again.
TEST_F(GatheringTest, WhoIsOfAnotherVersionIsToldOfOnce) {
  gather();
  come(12, 2, 0, control::kProtocol + 7);
  EXPECT_TRUE(until([&] { return log.find("not let in: ") != std::string::npos; }));
  const Deadline end = Deadline::in(std::chrono::milliseconds(700));
  while (!end.passed()) loop->run_once(Deadline::in(std::chrono::milliseconds(2)));
  const std::string what = "is of another version (Lockstep 1.2.3, protocol " +
                           std::to_string(control::kProtocol + 7) + ")";
  const auto first = log.find("not let in: ");
  ASSERT_NE(first, std::string::npos) << log;
  EXPECT_THAT(log.substr(first), HasSubstr(what));
  EXPECT_EQ(log.find("not let in: ", first + 1), std::string::npos) << log;
}

TEST_F(GatheringTest, AConnectionThatIsMadeAgainIsTheSameHosts) {
  gather();
  come(11, 1);
  come(12, 2);
  ASSERT_TRUE(until([&] { return formed == 1; }));
  hosts[0]->spoke->leave();
  ASSERT_TRUE(until([&] { return closed[1] == 1; }));
  Host& again = come(11, 1);
  ASSERT_TRUE(until([&] { return !again.heard.empty(); }));
  EXPECT_EQ(again.formed->self, 1);
  EXPECT_EQ(opened[1], 2);
  EXPECT_EQ(formed, 1);
}

// A host whose packets are dropped for a while dials anew, and is not one that has ended.
TEST_F(GatheringTest, WhatThisMachinesKernelGivesUpIsSilence) {
  rules.nodes = 2;
  rules.limit = 60'000'000'000;  // it dials nothing beside
  gather();
  Host& host = come(11, 1);
  ASSERT_TRUE(until([&] { return !host.heard.empty(); }));
  int here = -1, there = -1;
  for (int socket = 3; socket < 1024; ++socket) {
    const auto local = control::Address::local_of(socket);
    const auto remote = control::Address::remote_of(socket);
    if (local && remote && local->port() == port) here = socket;
    if (local && remote && remote->port() == port) there = socket;
  }
  ASSERT_TRUE(here >= 0 && there >= 0);
  const unsigned patience_ms = 200;
  ASSERT_EQ(::setsockopt(here, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof patience_ms), 0);
  loop->remove(there);  // nobody reads there, so nothing more is acknowledged
  for (int i = 0; i < 30; ++i) gathering->say(1, std::string(100'000, 'x'));
  ASSERT_TRUE(until([&] { return !control::Address::remote_of(here); }));
  const Deadline end = Deadline::in(std::chrono::milliseconds(100));
  while (!end.passed()) loop->run_once(Deadline::in(std::chrono::milliseconds(2)));
  EXPECT_EQ(closed[1], 0);
  host.spoke.reset();
  Host& again = come(11, 1);
  ASSERT_TRUE(until([&] { return !again.heard.empty(); }));
  EXPECT_EQ(opened[1], 2);
  EXPECT_EQ(closed[1], 0);
}

TEST_F(GatheringTest, WhoTakesPartInAnotherRunIsNotTakenIn) {
  gather();
  come(11, 1, 99);
  ASSERT_TRUE(until([&] { return !has_run.empty(); }));
  EXPECT_EQ(gathering->missing(), "node 1, node 2");
}

TEST_F(GatheringTest, WhoIsStartedWhereARunGoesOnWithoutItIsToldSo) {
  rules.limit = 300'000'000;
  port = control::Address::local_of(control::listen_everywhere(0)->get())->port();
  const Notice notice(*loop, *timers, plan_of(11, 1), {1, 11, 3, 7001, 7002, 99});
  const Deadline nobody = Deadline::in(std::chrono::milliseconds(100));
  while (!nobody.passed()) loop->run_once(Deadline::in(std::chrono::milliseconds(2)));
  gather();
  ASSERT_TRUE(until([&] { return has_run == "host11 (127.0.0.1)"; })) << has_run;
  EXPECT_EQ(gathering->missing(), "node 1, node 2");
}

// As two agents of which neither leads: they say nothing to each other, and each connection more
// would cost a handshake.
TEST_F(GatheringTest, WhoExpectsNoWordsStaysWithItsConnection) {
  rules.limit = 300'000'000;
  gather();
  Host& first = come(11, 1);
  Host& second = come(12, 2);
  ASSERT_TRUE(until([&] { return first.formed && second.formed; }));
  first.spoke->expect_words(false);
  const int before = opened[1];
  ASSERT_TRUE(until([&] { return opened[2] > 3; })) << "this one does";
  EXPECT_LE(opened[1], before + 1) << "one may have been on its way";
  first.spoke->expect_words(true);
  ASSERT_TRUE(until([&] { return opened[1] > before + 1; }));
}

TEST_F(GatheringTest, ElsewhereThoseComeInThatTheFirstOneHasNamed) {
  const message::Formed::Host host{"127.0.0.1", 7001, 7002, 11, 3, "cookie"};
  message::Formed told{0, 5, rules.limit, {host, host, host}};
  told.hosts[0].incarnation = 1, told.hosts[2].incarnation = 12;
  gather(0, told);
  EXPECT_EQ(gathering->missing(), "");
  Host& second = come(12, 2, 5);
  ASSERT_TRUE(until([&] { return !second.heard.empty(); }));
  EXPECT_EQ(second.heard, std::vector<std::string>{"to 2"});
  EXPECT_FALSE(second.formed) << "it knows";
  EXPECT_EQ(formed, 0);
  Host& stranger = come(13, 1, 0);
  ASSERT_TRUE(until([&] { return stranger.refused.has_value(); }));
  EXPECT_THAT(stranger.refused->text, HasSubstr("cannot take part"));
  come(11, 1, 6);
  come(11, 1, 5);
  ASSERT_TRUE(until([&] { return opened[1] == 1; }));
  EXPECT_EQ(has_run, "");
}

}  // namespace
}  // namespace lockstep::star

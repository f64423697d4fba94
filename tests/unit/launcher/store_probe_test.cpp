// What a node finds where it looks for the store of an attempt: each cause has its own words.
#include "launcher/store/store_probe.h"

#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/port.h"
#include "control/look_up.h"
#include "store/server.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

class StoreProbes : public ::testing::Test {
 protected:
  std::string probe(int port, std::chrono::milliseconds patience = 5s,
                    const std::string& address = "127.0.0.1") {
    std::optional<Status> found;
    auto probe = StoreProbe::start(loop_, *timers_, {address, port, patience},
                                   [&](const Status& status) { found = status; });
    EXPECT_FALSE(found);  // from the loop alone
    const Deadline end = Deadline::in(20s);
    while (!found && !end.passed()) loop_.run_once(Deadline::in(10ms));
    if (!found) return "nothing";
    if (found->ok()) return "";
    EXPECT_EQ(found->error().kind, ErrorKind::kUnavailable);
    EXPECT_LT(found->error().message.size(), 350u);  // twice in a word, and in one packet
    return found->error().message;
  }

  // What it says when its patience ends in that phase. A test that gets no CPU may not reach it:
  // then once more, with twice the patience.
  std::string probe_until(const std::string& phase) {
    std::string said;
    for (auto patience = 300ms; patience < 10s && said.find(phase) == said.npos; patience *= 2)
      said = probe(port_, patience);
    return said;
  }

  // Who listens, and gives each connection to `answer`, with all that has come of it.
  void listen(const std::function<void(int socket, std::string& heard)>& answer = nullptr) {
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    port_ = port_of(listener_.get());
    if (!answer) return;
    ASSERT_EQ(::listen(listener_.get(), 16), 0);
    ASSERT_TRUE(
        loop_
            .add(listener_.get(),
                 [this, answer] {
                   UniqueFd peer(
                       ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
                   const int fd = peer.get();
                   peers_.push_back(std::move(peer));
                   auto heard = std::make_shared<std::string>();
                   ASSERT_TRUE(loop_
                                   .add(fd,
                                        [this, answer, heard, fd] {
                                          char bytes[16 << 10];
                                          const ssize_t size = ::recv(fd, bytes, sizeof bytes, 0);
                                          if (size <= 0) return loop_.remove(fd);
                                          heard->append(bytes, static_cast<std::size_t>(size));
                                          answer(fd, *heard);
                                        })
                                   .ok());
                 })
            .ok());
  }
  static void say(int socket, const std::string& bytes) {
    (void)!::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  static constexpr std::size_t kHello = 5, kPing = 5;  // bytes, VALIDATE's and PING's

  Loop loop_ = *Loop::open();
  std::unique_ptr<control::Timers> timers_ = *control::Timers::open(loop_);
  UniqueFd listener_;
  std::vector<UniqueFd> peers_;
  int port_ = 0;
};

TEST_F(StoreProbes, FindAStoreAndLeaveNothingInIt) {
  const auto server = *store::Server::listen(loop_, {"127.0.0.1"}, 0);
  EXPECT_EQ(probe(server->port()), "");
  EXPECT_EQ(probe(server->port()), "");  // the second finds what the first found
  loop_.run_once(Deadline::in(10ms));
  loop_.run_once(Deadline::in(10ms));
  EXPECT_EQ(server->clients(), 0u);
  EXPECT_EQ(server->held(), 0u);
}

TEST_F(StoreProbes, FindAnIPv6Store) {
  if (control::own_addresses("::1", Deadline::in({})).empty())
    GTEST_SKIP() << "no IPv6 on this machine";
  const auto server = *store::Server::listen(loop_, {"::1"}, 0);
  EXPECT_EQ(probe(server->port(), 5s, "::1"), "");
}

TEST_F(StoreProbes, NobodyListens) {
  listen();
  EXPECT_EQ(probe(port_),
            "the workers' store of node 0 at 127.0.0.1:" + std::to_string(port_) +
                " is not reached, though the launchers' own connections work: refused: nobody "
                "listens there, or a firewall rejects it; let TCP to that port through, or name an "
                "open one (--store-port)");
}

TEST_F(StoreProbes, NoRouteAndNoAddress) {
  EXPECT_THAT(probe(1234, 5s, "host"), HasSubstr("at host:1234"));
  EXPECT_THAT(probe(1234, 5s, "fe80::1"),
              AllOf(HasSubstr("at [fe80::1]:1234"), HasSubstr("Invalid argument")));
}

// Its queue is full: the kernel drops who asks for a connection.
TEST_F(StoreProbes, NoAnswerToTheConnection) {
  listen();
  ASSERT_EQ(::listen(listener_.get(), 0), 0);
  std::vector<UniqueFd> queued;
  sockaddr_in address{};
  socklen_t size = sizeof address;
  ASSERT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  for (int i = 0; i < 4; ++i) {
    queued.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    (void)::connect(queued.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  EXPECT_THAT(probe(port_, 300ms), AllOf(HasSubstr("no answer within 300 ms: a firewall drops"),
                                         HasSubstr("--store-port")));
}

TEST_F(StoreProbes, NoAnswerOnTheConnection) {
  listen([](int, const std::string&) {});
  EXPECT_THAT(probe_until("connected, but no answer within "),
              AllOf(ContainsRegex("connected, but no answer within ([36]00 ms|[0-9.]+ s)"),
                    Not(HasSubstr("MTU"))));
}

TEST_F(StoreProbes, SmallAnswersAlone) {
  listen([](int socket, std::string& heard) {
    if (heard.size() == kHello + kPing) say(socket, heard.substr(kHello + 1));
  });
  const std::string phase = "small packets pass, large ones vanish on the way back";
  EXPECT_THAT(probe_until(phase), AllOf(HasSubstr(phase), HasSubstr("one MTU"),
                                        HasSubstr(" bytes not answered within ")));
}

TEST_F(StoreProbes, WhatIsNoStore) {
  for (const std::string& said : {std::string("SSH-2.0-OpenSSH_9\r\n"), std::string("\0\0", 2)}) {
    listen([said](int socket, const std::string&) { say(socket, said); });
    EXPECT_THAT(probe(port_), AllOf(HasSubstr("no store: it gives another answer"),
                                    HasSubstr("another program may have that port")));
    loop_.remove(listener_.get());
  }
  listen([](int socket, const std::string& heard) { say(socket, heard); });  // an echo
  EXPECT_THAT(probe(port_), HasSubstr("no store: it gives another answer"));
  loop_.remove(listener_.get());
  listen([](int socket, const std::string&) { ::shutdown(socket, SHUT_RDWR); });
  EXPECT_THAT(probe(port_), HasSubstr("no store: it closed the connection"));
}

TEST_F(StoreProbes, MayBeGivenUp) {
  listen([](int, const std::string&) {});
  bool called = false;
  {
    const auto probe = StoreProbe::start(loop_, *timers_, {"127.0.0.1", port_},
                                         [&](const Status&) { called = true; });
    loop_.run_once(Deadline::in(10ms));
  }
  loop_.run_once(Deadline::in(10ms));
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace lockstep::launcher

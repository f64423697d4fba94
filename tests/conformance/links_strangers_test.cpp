// Who is nobody of the run at a link's port: bounded in memory, descriptors and time, told once,
// and nobody else is disturbed.
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <filesystem>

#include "links/tcp/hello.h"
#include "links_net.h"

namespace lockstep::links::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class LinksStrangers : public testing::Test {
 protected:
  void SetUp() override {
    hosts_.limits.most_waiting = 8;
    hosts_.limits.patience = 4s;
    hosts_.join(0, 1);
  }
  UniqueFd stranger(const std::string& says = "") {
    const int port = dynamic_cast<TcpNet&>(hosts_.net()).port(0);
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = control::Address::numeric("127.0.0.1", port);
    EXPECT_EQ(::connect(socket.get(), address->data(), address->size()), 0);
    say(socket, says);
    return socket;
  }
  static void say(const UniqueFd& socket, const std::string& what) {
    (void)!::send(socket.get(), what.data(), what.size(), MSG_NOSIGNAL);
  }
  // The other end has closed it.
  bool is_closed(const UniqueFd& socket) {
    return hosts_.until([&] {
      char bytes[256];  // a hello that comes first
      const ssize_t count = ::recv(socket.get(), bytes, sizeof bytes, MSG_DONTWAIT);
      return count == 0 || (count < 0 && errno != EAGAIN);
    });
  }
  bool pair_works() {
    const std::size_t before = hosts_[0].told.frames[1].size();
    hosts_[1].links->send_copy(0, "h", std::string(100'000, 'y'));
    return hosts_.until([&] { return hosts_[0].told.frames[1].size() > before; }) &&
           hosts_[0].told.ups[1] == 1;
  }
  static std::string hello_of(HostIndex host) {
    return encode(Hello{party(host), party(0), draw_nonce()});
  }
  // What the other end has answered to that hello.
  std::string answer_on(const UniqueFd& socket) {
    return answer_of(socket, kHelloBytes + kProofBytes);
  }
  std::string answer_of(const UniqueFd& socket, std::size_t count) {
    std::string bytes(count, '\0');
    EXPECT_TRUE(hosts_.until([&] {
      return ::recv(socket.get(), bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT) ==
             static_cast<ssize_t>(bytes.size());
    }));
    (void)!::recv(socket.get(), bytes.data(), bytes.size(), 0);
    return bytes;
  }
  std::string proof_on(const UniqueFd& socket, const std::string& hello, const Cookie& cookie) {
    const std::string answer = answer_on(socket);
    const std::string_view theirs = std::string_view(answer).substr(0, kHelloBytes);
    EXPECT_EQ(answer.substr(kHelloBytes), proof_of(cookie_of(0, 2), End::kListens, hello, theirs));
    return proof_of(cookie, End::kDials, hello, theirs);
  }
  // Whoever has proved it: the load both ways, and the last byte.
  void come_in(const UniqueFd& socket, const std::string& proof) {
    say(socket, proof + std::string(load()));
    answer_of(socket, kLoadBytes);
    say(socket, std::string(1, '\0'));
  }
  static std::size_t descriptors() {
    const std::filesystem::directory_iterator begin("/proc/self/fd");
    return static_cast<std::size_t>(std::distance(begin, {}));
  }
  Hosts hosts_{true};
};

TEST_F(LinksStrangers, GarbageIsClosedAndToldOnce) {
  for (int i = 0; i < 3; ++i)
    for (const std::string& what : {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(500, '\0')})
      EXPECT_TRUE(is_closed(stranger(what)));
  EXPECT_EQ(hosts_[0].told.strangers.size(), 2U);
  EXPECT_THAT(hosts_[0].told.strangers[0], HasSubstr("GET / HTTP"));
  EXPECT_TRUE(pair_works());
}

TEST_F(LinksStrangers, AnotherCookieIsNotLetIn) {
  hosts_[0].links->open(hosts_.other(0, 2));
  Cookie cookie = cookie_of(0, 2);
  cookie[31] = std::byte{99};
  const std::string hello = hello_of(2);
  const UniqueFd socket = stranger(hello);
  say(socket, proof_on(socket, hello, cookie));
  EXPECT_TRUE(is_closed(socket));
  ASSERT_EQ(hosts_[0].told.strangers.size(), 1U);
  EXPECT_THAT(hosts_[0].told.strangers[0], HasSubstr("another cookie"));
  EXPECT_FALSE(hosts_[0].links->is_up(2));
  EXPECT_TRUE(pair_works());
}

TEST_F(LinksStrangers, WhoseLargePacketsAreLostIsNotLetIn) {
  hosts_[0].links->open(hosts_.other(0, 2));
  for (const bool its_own : {true, false}) {
    const std::string hello = hello_of(2);
    UniqueFd socket = stranger(hello);
    std::string proof = proof_on(socket, hello, cookie_of(0, 2));
    if (!its_own) proof += load();
    say(socket, proof);
    if (!its_own) answer_of(socket, kLoadBytes);
    hosts_.run(20ms);
    EXPECT_FALSE(hosts_[0].links->is_up(2));
    socket.reset();
    const std::size_t told = its_own ? 1 : 2;
    ASSERT_TRUE(hosts_.until([&] { return hosts_[0].told.strangers.size() == told; }));
    EXPECT_THAT(
        hosts_[0].told.strangers.back(),
        HasSubstr(its_own ? "large packets had come from there" : "large packets had come there"));
  }
  EXPECT_EQ(hosts_[0].told.ups[2], 0);
}

// Neither does it take the place of whoever said it first.
TEST_F(LinksStrangers, WhatWasRecordedLetsNobodyIn) {
  hosts_[0].links->open(hosts_.other(0, 2));
  const std::string hello = hello_of(2);
  const UniqueFd first = stranger(hello);
  const std::string proof = proof_on(first, hello, cookie_of(0, 2));
  come_in(first, proof);
  ASSERT_TRUE(hosts_.until([&] { return hosts_[0].links->is_up(2); }));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(is_closed(stranger(hello + proof)));
  EXPECT_THAT(hosts_[0].told.downs[2], IsEmpty());
  EXPECT_TRUE(hosts_[0].links->is_up(2));
  ASSERT_EQ(hosts_[0].told.strangers.size(), 1U);
  EXPECT_THAT(hosts_[0].told.strangers[0], HasSubstr("another cookie"));
}

// One that is expected a moment later has only come early.
TEST_F(LinksStrangers, WhoIsNotWantedIsToldUnlessItSoonIs) {
  hosts_.add(2, party(2));
  hosts_.add(3, party(3));
  for (const HostIndex host : {HostIndex{2}, HostIndex{3}})
    EXPECT_TRUE(is_closed(stranger(hello_of(host))));
  hosts_.join(0, 2);
  EXPECT_THAT(hosts_[0].told.strangers, IsEmpty());
  EXPECT_TRUE(hosts_.until([&] { return !hosts_[0].told.strangers.empty(); }));
  EXPECT_THAT(hosts_[0].told.strangers,
              testing::ElementsAre(HasSubstr("no connection is wanted with node 3 now")));
  EXPECT_TRUE(pair_works());
}

TEST_F(LinksStrangers, HalfOpenOnesMakeRoomAndGoAfterAWhile) {
  const std::size_t before = descriptors();
  std::vector<UniqueFd> flood;
  for (int i = 0; i < 60; ++i) flood.push_back(stranger(i % 2 == 0 ? "" : "LSLI"));
  EXPECT_TRUE(pair_works());
  EXPECT_LE(descriptors(), before + flood.size() + 8);
  for (const UniqueFd& socket : flood) EXPECT_TRUE(is_closed(socket));
  EXPECT_EQ(descriptors(), before + flood.size());
  EXPECT_TRUE(pair_works());
}

// Whoever has the cookie and then says what no frame can be.
TEST_F(LinksStrangers, GiantLengthsEndTheStreamAndNothingElse) {
  hosts_.parties[2] = party(2);
  hosts_[0].links->open(hosts_.other(0, 2));
  const std::uint32_t frames[][2] = {
      {4, 0xffffffff}, {0xffffffff, 4}, {kMostHeaderBytes + 1, 0}, {4, kMostBodyBytes + 1}, {0, 4}};
  for (const auto& lengths : frames) {
    const std::string hello = hello_of(2);
    const UniqueFd socket = stranger(hello);
    come_in(socket, proof_on(socket, hello, cookie_of(0, 2)));
    std::string bytes(reinterpret_cast<const char*>(lengths), sizeof lengths);
    say(socket, bytes + std::string(1000, 'z'));
    EXPECT_TRUE(is_closed(socket));
    ASSERT_TRUE(hosts_.until([&] { return !hosts_[0].links->is_up(2); }));
  }
  ASSERT_TRUE(hosts_.until([&] { return hosts_[0].told.downs[2].size() == std::size(frames); }));
  EXPECT_THAT(hosts_[0].told.downs[2], testing::Each(Cause::kBroken));
  EXPECT_THAT(hosts_[0].told.frames[2], IsEmpty());
  EXPECT_TRUE(pair_works());
}

TEST_F(LinksStrangers, AHelloInPiecesIsAHello) {
  hosts_[0].links->open(hosts_.other(0, 2));
  const std::string bytes = hello_of(2);
  const UniqueFd socket = stranger(bytes.substr(0, 3));
  hosts_.run(10ms);
  say(socket, bytes.substr(3, 40));
  hosts_.run(10ms);
  say(socket, bytes.substr(43));
  const std::string proof = proof_on(socket, bytes, cookie_of(0, 2));
  say(socket, proof.substr(0, 20));
  hosts_.run(10ms);
  EXPECT_FALSE(hosts_[0].links->is_up(2));
  say(socket, proof.substr(20));
  hosts_.run(10ms);
  EXPECT_FALSE(hosts_[0].links->is_up(2));
  say(socket, std::string(load().substr(0, 5000)));
  hosts_.run(10ms);
  say(socket, std::string(load().substr(5000)));
  answer_of(socket, kLoadBytes);
  hosts_.run(10ms);
  EXPECT_FALSE(hosts_[0].links->is_up(2));
  say(socket, std::string(1, '\0'));
  ASSERT_TRUE(hosts_.until([&] { return hosts_[0].links->is_up(2); }));
}

TEST(LinksHello, IsWhatWasSaid) {
  const Hello hello{party(3, 4, 5), party(1, 2, 3), draw_nonce()};
  const auto read = decode_hello(encode(hello));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->from, hello.from);
  EXPECT_EQ(read->to, hello.to);
  EXPECT_EQ(read->nonce, hello.nonce);
  EXPECT_FALSE(decode_hello(encode(hello).substr(1)).has_value());
  const Other other{hello.from, {}, cookie_of(1, 3)};
  EXPECT_EQ(why_not(hello, hello.to, other), "");
  EXPECT_THAT(why_not(hello, party(1), other), HasSubstr("it looks for node 1"));
  EXPECT_THAT(why_not({party(3), hello.to, hello.nonce}, hello.to, other), HasSubstr("expected"));
}

}  // namespace
}  // namespace lockstep::links::test

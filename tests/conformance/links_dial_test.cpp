// A link that is dialled again over a network that loses the first packets.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <vector>

#include "links/tcp/dial.h"
#include "links_net.h"

namespace lockstep::links::test {
namespace {

// What host 0's link says to that of host 1.
void answer_hello(int socket) {
  std::array<char, kHelloBytes> hello;
  ASSERT_EQ(::recv(socket, hello.data(), hello.size(), MSG_WAITALL), ssize_t{kHelloBytes});
  std::string answer = encode({party(0), party(1), draw_nonce()});
  answer += proof_of(cookie_of(0, 1), End::kListens, {hello.data(), hello.size()}, answer);
  ASSERT_EQ(::send(socket, answer.data(), answer.size(), 0), static_cast<ssize_t>(answer.size()));
}

void answer_load(int socket) {
  ASSERT_EQ(::send(socket, load().data(), kLoadBytes, 0), ssize_t{kLoadBytes});
}

// The kernel drops who asks for a connection while as many wait as may, and a kernel whose packet
// is lost asks again after a second.
TEST(LinksDial, WhoIsNotHeardIsTriedAgainSoon) {
  Loop loop = *Loop::open();
  const auto timers = *control::Timers::open(loop);
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto any = control::Address::numeric("127.0.0.1", 0);
  ASSERT_EQ(::bind(listener.get(), any->data(), any->size()), 0);
  ASSERT_EQ(::listen(listener.get(), 0), 0);
  const auto address = control::Address::local_of(listener.get());
  const UniqueFd first(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(first.get(), address->data(), address->size()), 0);

  std::optional<UniqueFd> dialled;
  const Other other{party(0), address, cookie_of(0, 1)};
  const auto dial =
      Dial::start(loop, *timers, std::nullopt, party(1), other, Packets::kAny, 4s,
                  [&](UniqueFd socket, const Failure&) { dialled = std::move(socket); });
  const auto run = [&](std::chrono::milliseconds time) {
    for (const Deadline end = Deadline::in(time); !end.passed() && !dialled;)
      loop.run_once(Deadline::in(10ms));
  };
  run(100ms);
  const UniqueFd taken(::accept(listener.get(), nullptr, nullptr));
  ASSERT_TRUE(taken);
  run(1500ms);
  const UniqueFd second(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(second);
  answer_hello(second.get());
  run(100ms);
  EXPECT_FALSE(dialled) << "no load has come";
  answer_load(second.get());
  run(5s);
  ASSERT_TRUE(dialled);
  EXPECT_TRUE(*dialled);
}

// As where large packets are lost. From then on this pair's have the size that all networks let
// through, and what is told once says so.
TEST(LinksDial, WhereNoLoadComesItIsTriedWithSmallPackets) {
  Loop loop = *Loop::open();
  const auto timers = *control::Timers::open(loop);
  const auto listener = *control::listen_at(*control::Address::numeric("127.0.0.1", 0));
  Recorder told;
  Limits limits;
  limits.silence = 4s;  // of which a load has 2
  const auto links = *make_tcp_links(
      loop, *timers, *control::listen_at(*control::Address::numeric("127.0.0.1", 0)), party(1),
      limits, told);
  links->open({party(0), control::Address::local_of(listener.get()), cookie_of(0, 1)});
  std::vector<UniqueFd> kept;
  const auto next = [&] {
    int socket = -1;
    for (const Deadline end = Deadline::in(20s); socket < 0 && !end.passed();) {
      loop.run_once(Deadline::in(10ms));
      socket = ::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC);
    }
    if (socket < 0) return socket;
    kept.emplace_back(socket);
    for (pollfd hello{socket, POLLIN, 0}; ::poll(&hello, 1, 0) == 0;)
      loop.run_once(Deadline::in(10ms));
    answer_hello(socket);
    return socket;
  };
  const auto largest_segment = [](int socket) {
    tcp_info info{};
    socklen_t size = sizeof info;
    ::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size);
    return static_cast<int>(info.tcpi_snd_mss);
  };
  EXPECT_GT(largest_segment(next()), control::kSmallSegment);
  const int second = next();
  EXPECT_LE(largest_segment(second), control::kSmallSegment);
  EXPECT_THAT(told.cannots[0], testing::ElementsAre(Cause::kLargeLost));
  EXPECT_THAT(told.last.text, testing::AllOf(testing::HasSubstr("small packets pass, large ones"),
                                             testing::HasSubstr("one MTU")));
  EXPECT_EQ(told.ups[0], 0);
  for (int i = 0; i < 10; ++i) loop.run_once(Deadline::in(10ms));
  answer_load(second);
  for (const Deadline end = Deadline::in(5s); told.ups[0] == 0 && !end.passed();)
    loop.run_once(Deadline::in(10ms));
  EXPECT_EQ(told.ups[0], 1);
}

}  // namespace
}  // namespace lockstep::links::test

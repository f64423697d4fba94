// A link that is dialled again over a network that loses the first packets.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>

#include "links/tcp/dial.h"
#include "links_net.h"

namespace lockstep::links::test {
namespace {

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
      Dial::start(loop, *timers, std::nullopt, party(1), other, 4s,
                  [&](UniqueFd socket, const Failure&) { dialled = std::move(socket); });
  const auto run = [&](std::chrono::milliseconds time) {
    for (const Deadline end = Deadline::in(time); !end.passed() && !dialled;)
      loop.run_once(Deadline::in(10ms));
  };
  run(100ms);
  const UniqueFd taken(::accept(listener.get(), nullptr, nullptr));
  ASSERT_TRUE(taken);
  run(600ms);
  const UniqueFd second(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(second);
  std::array<char, kHelloBytes> hello;
  ASSERT_EQ(::recv(second.get(), hello.data(), hello.size(), MSG_WAITALL), ssize_t{kHelloBytes});
  std::string answer = encode({party(0), party(1), draw_nonce()});
  answer += proof_of(cookie_of(0, 1), End::kListens, {hello.data(), hello.size()}, answer);
  ASSERT_EQ(::send(second.get(), answer.data(), answer.size(), 0),
            static_cast<ssize_t>(answer.size()));
  run(5s);
  ASSERT_TRUE(dialled);
  EXPECT_TRUE(*dialled);
}

}  // namespace
}  // namespace lockstep::links::test

#include "base/door.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using namespace std::chrono_literals;

// Bound to an abstract name that the kernel chooses; it blocks, as one may that a program has made.
UniqueFd listener(sockaddr_un& address, socklen_t& size) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  address = {};
  address.sun_family = AF_UNIX;
  size = sizeof address;
  auto* const name = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(socket.get(), name, sizeof address.sun_family), 0);
  EXPECT_EQ(::getsockname(socket.get(), name, &size), 0);
  EXPECT_EQ(::listen(socket.get(), 8), 0);
  return socket;
}

TEST(Door, RestsWhereNoDescriptorIsLeftForWhoComes) {
  auto loop = Loop::open();
  ASSERT_TRUE(loop.ok());
  sockaddr_un address{};
  socklen_t size = 0;
  const UniqueFd socket = listener(address, size);
  std::vector<UniqueFd> visitors;
  Door door(socket.get(), *loop, [&](UniqueFd visitor) { visitors.push_back(std::move(visitor)); });
  ASSERT_TRUE(door.open().ok());
  const UniqueFd client(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&address), size), 0);

  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit full{0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &full), 0);
  loop->run_once(Deadline::in(1s));
  const bool rested = door.rests();
  int turns = 0;
  for (const Deadline deadline = Deadline::in(200ms); !deadline.passed(); ++turns) {
    loop->run_once(Deadline::in(20ms));
    door.look();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(rested);
  EXPECT_LT(turns, 40) << "woken again and again";
  EXPECT_TRUE(visitors.empty());

  pause(60ms);
  door.look();
  EXPECT_FALSE(door.rests());
  loop->run_once(Deadline::in(1s));
  EXPECT_EQ(visitors.size(), 1U);
}

}  // namespace
}  // namespace lockstep

// Which addresses of this machine a host stands for, and who listens at a port.
#include "base/addresses.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include "base/processes.h"
#include "base/unique_fd.h"

namespace lockstep {
namespace {

using namespace std::chrono_literals;
using Addresses = std::vector<std::string>;

TEST(Addresses, AreOfThisMachineOrNone) {
  const auto own = [](const std::string& host) { return own_addresses(host, Deadline::in(5s)); };
  EXPECT_EQ(own("127.0.0.1"), Addresses{"127.0.0.1"});
  EXPECT_EQ(own("127.9.9.9"), Addresses{"127.9.9.9"});
  EXPECT_EQ(own("0.0.0.0"), Addresses{"127.0.0.1"});
  EXPECT_EQ(own("192.0.2.1"), Addresses());  // RFC 5737: nobody's
  EXPECT_EQ(own("2001:db8::1"), Addresses());
  const Addresses local = own("localhost");
  EXPECT_NE(std::ranges::find(local, "127.0.0.1"), local.end());
}

TEST(Addresses, ALookUpEndsInTime) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(own_addresses("no-such-host.invalid", Deadline::in(0s)), Addresses());
  EXPECT_EQ(own_addresses("", Deadline::in(5s)), Addresses());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 4s);
}

TEST(PortHolder, IsWhoListens) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const int port = ntohs(address.sin_port);
  EXPECT_EQ(port_holder(port), "");  // bound only
  ASSERT_EQ(::listen(fd.get(), 1), 0);
  const std::string holder = port_holder(port);
  EXPECT_TRUE(holder.starts_with(" (process " + std::to_string(::getpid()) + ": ")) << holder;
  EXPECT_NE(holder.find("base_unit_test"), std::string::npos) << holder;
}

}  // namespace
}  // namespace lockstep

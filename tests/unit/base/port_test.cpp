// Who listens at a port.
#include "base/port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/processes.h"
#include "base/unique_fd.h"

namespace lockstep {
namespace {

TEST(PortHolder, IsWhoListens) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  const int port = port_of(fd.get());
  EXPECT_EQ(port_holder(port), "");  // bound only
  ASSERT_EQ(::listen(fd.get(), 1), 0);
  const std::string holder = port_listener(port);
  EXPECT_EQ(port_holder(port), holder);
  EXPECT_TRUE(holder.starts_with(" (process " + std::to_string(::getpid()) + ": ")) << holder;
  EXPECT_NE(holder.find("base_unit_test"), std::string::npos) << holder;
}

// In use all the same, for who wants to listen there.
TEST(PortHolder, IsWhoHasAConnectionFromIt) {
  const UniqueFd server(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  const auto* const any = reinterpret_cast<const sockaddr*>(&address);
  ASSERT_EQ(::bind(server.get(), any, sizeof address), 0);
  ASSERT_EQ(::listen(server.get(), 1), 0);
  address.sin_port = htons(static_cast<std::uint16_t>(port_of(server.get())));
  ASSERT_EQ(::connect(client.get(), any, sizeof address), 0);
  const int port = port_of(client.get());
  EXPECT_EQ(port_listener(port), "");
  const std::string holder = port_holder(port);
  EXPECT_TRUE(holder.starts_with(" (process " + std::to_string(::getpid()) + ": ")) << holder;
  EXPECT_TRUE(holder.ends_with(", with a connection from that port)")) << holder;
}

}  // namespace
}  // namespace lockstep

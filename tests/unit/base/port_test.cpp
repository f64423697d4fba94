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
  const std::string holder = port_holder(port);
  EXPECT_TRUE(holder.starts_with(" (process " + std::to_string(::getpid()) + ": ")) << holder;
  EXPECT_NE(holder.find("base_unit_test"), std::string::npos) << holder;
}

}  // namespace
}  // namespace lockstep

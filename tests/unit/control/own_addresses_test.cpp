// Which addresses of this machine a host stands for.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "control/address.h"
#include "control/look_up.h"

namespace lockstep::control {
namespace {

using namespace std::chrono_literals;
using Addresses = std::vector<std::string>;

TEST(OwnAddresses, AreOfThisMachineOrNone) {
  const auto own = [](const std::string& host) { return own_addresses(host, Deadline::in(5s)); };
  EXPECT_EQ(own("127.0.0.1"), Addresses{"127.0.0.1"});
  EXPECT_EQ(own("127.9.9.9"), Addresses{"127.9.9.9"});
  EXPECT_EQ(own("0.0.0.0"), Addresses{"127.0.0.1"});
  EXPECT_EQ(own("192.0.2.1"), Addresses());  // RFC 5737: nobody's
  EXPECT_EQ(own("2001:db8::1"), Addresses());
  const Addresses local = own("localhost");
  EXPECT_NE(std::ranges::find(local, "127.0.0.1"), local.end());
}

TEST(OwnAddresses, AreListedForMessages) {
  std::vector<Interface> all;
  const auto add = [&](const char* name, const char* address) {
    all.push_back({name, *Address::numeric(address, 0)});
  };
  add("lo", "127.0.0.1"), add("lo", "::1");
  EXPECT_EQ(addresses_here(all), "this machine has no address but the loopback's");
  add("lo", "fe80::7%lo");
  EXPECT_EQ(addresses_here(all), "this machine has fe80::7%lo");
  add("eth0", "10.0.0.7"), add("eth0", "fd00::7");
  EXPECT_EQ(addresses_here(all), "this machine has 10.0.0.7 (eth0), fd00::7 (eth0)");
  for (int i = 0; i < 9; ++i) add("veth", "10.0.1.7");
  EXPECT_TRUE(addresses_here(all).ends_with("10.0.1.7 (veth) and 5 more")) << addresses_here(all);
}

TEST(OwnAddresses, ALookUpEndsInTime) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(own_addresses("no-such-host.invalid", Deadline::in(0s)), Addresses());
  EXPECT_EQ(own_addresses("", Deadline::in(5s)), Addresses());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 4s);
}

}  // namespace
}  // namespace lockstep::control

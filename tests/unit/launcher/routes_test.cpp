// Which interface workers are told, and by which address another node is reached.
#include "launcher/nodes/routes.h"

#include <gtest/gtest.h>

#include "control/address.h"

namespace lockstep::launcher {
namespace {

TEST(Routes, OnThisMachineGoByTheLoopback) {
  EXPECT_EQ(*interface_of_route(""), "lo");
  EXPECT_EQ(*interface_of_route("127.0.0.1"), "lo");
  EXPECT_EQ(*interface_of_route("127.9.9.9"), "lo");
}

TEST(Routes, GoByTheInterfaceThatHasTheAddress) {
  const auto all = control::interfaces();
  ASSERT_TRUE(all.ok());
  for (const control::Interface& each : *all) {
    const auto first = control::interface_of(each.address, *all);
    EXPECT_EQ(*interface_of_route(each.address.host()), first) << each.address.host();
  }
  EXPECT_FALSE(interface_of_route("192.0.2.1").ok());  // RFC 5737: nobody's
}

TEST(Routes, ALinkLocalAddressGoesByAnInterfaceOfThisNode) {
  EXPECT_EQ(reached_from("127.0.0.1", "fe80::7%some-other"), "fe80::7%lo");
  EXPECT_EQ(reached_from("127.0.0.1", "fe80::7"), "fe80::7%lo");
  EXPECT_EQ(reached_from("192.0.2.1", "fe80::7%eth7"), "fe80::7%eth7");  // not known better
  EXPECT_EQ(reached_from("", "fe80::7%eth7"), "fe80::7%eth7");
}

TEST(Routes, OtherAddressesStay) {
  for (const char* address : {"10.0.0.7", "fd00::7", "::1", "127.0.0.1", "no-address", ""})
    EXPECT_EQ(reached_from("127.0.0.1", address), address);
}

}  // namespace
}  // namespace lockstep::launcher

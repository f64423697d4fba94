// Which interface workers are told, and by which address another node is reached.
#include "launcher/nodes/routes.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "control/address.h"

namespace lockstep::launcher {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Interfaces = std::vector<control::Interface>;

control::Interface at(const std::string& name, const std::string& address) {
  return {name, *control::Address::numeric(address, 0)};
}

WorkersInterface of(const std::string& local, const Interfaces& all, const std::string& own = "") {
  return interface_for_workers(local, all, [own] { return own; });
}

const Interfaces kPlain{at("lo", "127.0.0.1"), at("eth0", "10.0.0.7"), at("eth0", "10.1.0.7"),
                        at("lo", "::1"),       at("eth0", "fd00::7"),  at("eth0", "fd01::7")};

TEST(Routes, OnThisMachineGoByTheLoopback) {
  for (const char* local : {"", "127.0.0.1", "127.9.9.9", "::1"}) {
    EXPECT_EQ(of(local, kPlain).name, "lo") << local;
    EXPECT_EQ(of(local, kPlain).warning, "") << local;
  }
  EXPECT_EQ(interface_for_workers("127.0.0.1").name, "lo");
}

TEST(Routes, GoByTheInterfaceWhoseFirstAddressItIs) {
  for (const char* local : {"10.0.0.7", "fd00::7"}) {
    EXPECT_EQ(of(local, kPlain, "127.0.1.1").name, "eth0") << local;
    EXPECT_EQ(of(local, kPlain).warning, "") << local;
  }
  const WorkersInterface nobodys = interface_for_workers("2001:db8::1");
  EXPECT_EQ(nobodys.name, "");
  EXPECT_THAT(nobodys.warning, HasSubstr("no interface of this machine has the address 2001:db8"));
}

// Gloo would take the first one.
TEST(Routes, ASecondAddressIsLeftToTheMachinesName) {
  for (const char* local : {"10.1.0.7", "fd01::7"}) {
    EXPECT_EQ(of(local, kPlain, local).name, "") << local;
    EXPECT_EQ(of(local, kPlain, local).warning, "") << local;
    const WorkersInterface astray = of(local, kPlain, "127.0.1.1");
    EXPECT_EQ(astray.name, "eth0") << "better than the loopback";
    EXPECT_THAT(astray.warning,
                AllOf(HasSubstr(local), HasSubstr("eth0"), HasSubstr("/etc/hosts")));
  }
}

TEST(Routes, AnAddressOfTheLoopbackInterfaceIsNeverTheInterfaces) {
  const Interfaces routed{at("lo", "127.0.0.1"), at("lo", "10.9.0.7"), at("eth0", "10.0.0.7")};
  EXPECT_EQ(of("10.9.0.7", routed, "10.9.0.7").name, "");
  EXPECT_EQ(of("10.9.0.7", routed, "10.9.0.7").warning, "");
  EXPECT_EQ(of("10.9.0.7", routed, "10.0.0.7").name, "");
  EXPECT_THAT(of("10.9.0.7", routed).warning,
              AllOf(HasSubstr("10.9.0.7"), HasSubstr("127.0.0.1"), HasSubstr("not set")));
}

TEST(Routes, ALinkLocalAddressIsItsInterfaces) {
  Interfaces all = kPlain;
  all.push_back(at("lo", "fe80::7%lo"));
  EXPECT_EQ(of("fe80::7%lo", all).name, "lo");
  EXPECT_EQ(of("fe80::7%lo", all).warning, "");
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

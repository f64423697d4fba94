// What is said of an endpoint whose addresses cannot be where the nodes meet.
#include "launcher/nodes/endpoint_here.h"

#include <gmock/gmock.h>

#include <chrono>
#include <string>

namespace lockstep::launcher {
namespace {

using control::Address;
using testing::AllOf;
using testing::HasSubstr;

std::vector<Address> addresses(const std::vector<std::string>& hosts) {
  std::vector<Address> list;
  for (const std::string& host : hosts) list.push_back(*Address::numeric(host, 0));
  return list;
}

NodesOptions options(const std::string& host) {
  NodesOptions made;
  made.nnodes = 3;
  made.endpoint_host = host;
  made.endpoint_port = 29400;
  return made;
}

std::string refusal(const Status& status, ErrorKind kind = ErrorKind::kUsage) {
  if (status.ok()) return "";
  EXPECT_EQ(status.error().kind, kind);
  return status.error().message;
}

// Of a headless service, or of round-robin DNS: each of the machines would lead.
TEST(EndpointHere, ANameOfSeveralMachinesIsRefusedOnEachOfThem) {
  const EndpointHere here{addresses({"10.0.0.2"}), addresses({"10.0.0.1", "10.0.0.3"})};
  EXPECT_THAT(refusal(check_endpoint_here(options("train"), here), ErrorKind::kUnavailable),
              AllOf(HasSubstr("'train' leads to 3 addresses"), HasSubstr("10.0.0.2 of this"),
                    HasSubstr("10.0.0.1, 10.0.0.3 of others"), HasSubstr("one node")));
  NodesOptions told = options("train");
  for (const bool leads : {true, false}) {
    told.is_host = leads;
    EXPECT_EQ(refusal(check_endpoint_here(told, here)), "");
  }
  const EndpointHere looped{addresses({"127.0.1.1"}), addresses({"10.0.0.1"})};
  EXPECT_NE(refusal(check_endpoint_here(options("host1"), looped), ErrorKind::kUnavailable), "");
}

TEST(EndpointHere, ANameOfOneMachineIsTaken) {
  EXPECT_EQ(refusal(check_endpoint_here(options("host1"), {})), "");  // not known yet
  EXPECT_EQ(
      refusal(check_endpoint_here(options("host1"), {addresses({"10.0.0.1", "fd00::1"}), {}})), "");
  EXPECT_EQ(
      refusal(check_endpoint_here(options("host1"), {{}, addresses({"10.0.0.1", "fd00::1"})})), "");
}

TEST(EndpointHere, WhatIsNoMachinesAddressIsRefused) {
  for (const char* host : {"0.0.0.0", "::", "224.0.0.1", "239.1.2.3", "ff02::1", "255.255.255.255"})
    for (const bool own : {true, false}) {
      EndpointHere here;
      (own ? here.own : here.others) = addresses({host});
      EXPECT_THAT(refusal(check_endpoint_here(options("job"), here)),
                  AllOf(HasSubstr("job"), HasSubstr(host), HasSubstr("no machine's address")));
    }
}

TEST(EndpointHere, ALocalAddressMustBeOfOneFamilyWithTheEndpoint) {
  NodesOptions with = options("fd00::1");
  with.local_addr = "10.0.0.2";
  const EndpointHere there{{}, addresses({"fd00::1"})};
  EXPECT_THAT(refusal(check_local_addr(with, *Address::numeric("10.0.0.2", 0), there)),
              AllOf(HasSubstr("--local-addr '10.0.0.2' is of IPv4"), HasSubstr("of IPv6")));
  EXPECT_EQ(refusal(check_local_addr(with, *Address::numeric("fd00::2", 0), there)), "");
  const EndpointHere both{{}, addresses({"fd00::1", "10.0.0.1"})};
  EXPECT_EQ(refusal(check_local_addr(with, *Address::numeric("10.0.0.2", 0), both)), "");
  EXPECT_NE(refusal(check_local_addr(with, *Address::numeric("127.0.0.1", 0), both)), "");
}

TEST(EndpointHere, ANameThatLeadsToTheLoopbackIsDoubtedUnlessItIsTheMachinesOwn) {
  const EndpointHere looped{addresses({"127.0.1.1"}), {}};
  EXPECT_THAT(
      doubt_of_endpoint(options("job"), looped, "host2"),
      AllOf(HasSubstr("'job' leads to 127.0.1.1"), HasSubstr("'host2'"), HasSubstr("/etc/hosts")));
  for (const char* own : {"job", "JOB", "job.example.org"})
    EXPECT_EQ(doubt_of_endpoint(options("job"), looped, own), "");
  EXPECT_EQ(doubt_of_endpoint(options("job.service"), looped, "job"), "");
  EXPECT_EQ(doubt_of_endpoint(options("job"), {addresses({"10.0.0.2"}), {}}, "host2"), "");
  EXPECT_EQ(doubt_of_endpoint(options("job"), {}, "host2"), "");
}

TEST(EndpointHere, AddressesOfThisMachineAreFound) {
  const EndpointHere loopback = look_for_endpoint("127.0.0.1", Deadline::in({}));
  EXPECT_EQ(loopback.own.size(), 1u);
  EXPECT_TRUE(loopback.others.empty());
  const EndpointHere nobodys = look_for_endpoint("2001:db8::1", Deadline::in({}));
  EXPECT_EQ(nobodys.others.size(), 1u);
  EXPECT_TRUE(nobodys.own.empty());
}

}  // namespace
}  // namespace lockstep::launcher

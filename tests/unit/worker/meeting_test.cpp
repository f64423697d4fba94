// Where processes meet that were started by hand.
#include "worker/meeting.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

namespace lockstep::worker {
namespace {

class MeetingTest : public testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : kNames) ::unsetenv(name);
  }
  void TearDown() override { SetUp(); }

  static Result<std::optional<Meeting>> at(const std::string& address, int rank = 1,
                                           int world = 3) {
    return meeting_of(Rendezvous{address, rank, world});
  }
  static void expect_host(const std::string& address, const std::string& host) {
    const auto meeting = at(address);
    ASSERT_TRUE(meeting.ok() && *meeting) << address;
    EXPECT_EQ((*meeting)->host, host) << address;
    EXPECT_EQ((*meeting)->port, 29500) << address;
  }
  static void expect_error(const Result<std::optional<Meeting>>& meeting, const std::string& word) {
    ASSERT_FALSE(meeting.ok()) << word;
    EXPECT_EQ(meeting.error().kind, ErrorKind::kUsage);
    EXPECT_NE(meeting.error().message.find(word), std::string::npos) << meeting.error().message;
  }

  static constexpr const char* kNames[] = {
      "MASTER_ADDR", "MASTER_PORT",         "RANK",
      "WORLD_SIZE",  "TORCHELASTIC_RUN_ID", "LOCKSTEP_INIT_TIMEOUT"};
};

TEST_F(MeetingTest, NamesOfTheLoopbackAreOne) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "0.0.0.0", "[::1]", "[::]"})
    expect_host(std::string("tcp://") + host + ":29500", "127.0.0.1");
  expect_host("tcp://127.0.0.1:29500?use_libuv=0", "127.0.0.1");  // torch's options are its own
}

TEST_F(MeetingTest, TheSocketIsNamedByUserAddressAndPort) {
  const Meeting meeting{"fd00::7", 29500, 0, 2, {}};
  EXPECT_EQ(meeting.socket_name(1000), "lockstep/1000/fd00::7/29500");
  EXPECT_EQ(meeting.address(), "tcp://[fd00::7]:29500");
}

TEST_F(MeetingTest, AnotherMachineIsRefused) {
  expect_error(at("tcp://192.0.2.1:29500"),
               "has the host '192.0.2.1', which is another machine: ranks that are started by hand "
               "meet on one machine");
  expect_error(at("tcp://no-such-host.invalid:29500"), "'no-such-host.invalid', which cannot be");
}

TEST_F(MeetingTest, WhatIsNoAddressIsRefused) {
  for (const char* text : {"127.0.0.1:29500", "tcp://", "tcp://:29500", "tcp://127.0.0.1"})
    expect_error(at(text), "it must be tcp://HOST:PORT");
  expect_error(at("file:///shared"), "by a file is not supported");
  for (const char* port : {"", "0", "65536", "x", "-1"})
    expect_error(at(std::string("tcp://127.0.0.1:") + port), "the port '");
}

TEST_F(MeetingTest, RanksAreBelowTheirNumber) {
  expect_error(at("tcp://127.0.0.1:29500", 3, 3), "the rank is 3, and of 3 ranks there are 0 to 2");
  expect_error(at("tcp://127.0.0.1:29500", -2, 3), "the rank is -2");
  expect_error(at("tcp://127.0.0.1:29500", -1, 3), "nothing says which of them this process is");
  expect_error(at("tcp://127.0.0.1:29500", 0, 129), "is 129; 1 to 128");
  expect_error(at("", 1, 1), "the rank is 1");
}

TEST_F(MeetingTest, ABlankAddressIsTheEnvironments) {
  expect_error(at(""), "--init_method tcp://127.0.0.1:29500, or MASTER_ADDR and MASTER_PORT");
  expect_error(at(""), "'lockstep run --nproc-per-node");
  ::setenv("MASTER_ADDR", "localhost", 1);
  expect_error(at(""), "nothing says where the others are");
  ::setenv("MASTER_PORT", "29500", 1);
  for (const char* address : {"", "env://"}) expect_host(address, "127.0.0.1");
}

TEST_F(MeetingTest, OneMeetsNobody) {
  for (const char* address : {"", "tcp://127.0.0.1:29500"}) {
    const auto alone = at(address, 0, 1);
    ASSERT_TRUE(alone.ok());
    EXPECT_FALSE(*alone);
  }
}

TEST_F(MeetingTest, WhatIsNotGivenIsTheEnvironments) {
  for (const char* address : {"", "env://", "tcp://127.0.0.1:29500"})
    EXPECT_FALSE(*meeting_of(Rendezvous{address})) << address;  // alone, as nothing says otherwise
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("MASTER_PORT", "29500", 1);
  ::setenv("WORLD_SIZE", "4", 1);
  expect_error(meeting_of(Rendezvous{"env://"}), "WORLD_SIZE is '4', and RANK is not set");
  ::setenv("RANK", "2", 1);
  const auto ranks = [](const Rendezvous& given) {
    const auto meeting = meeting_of(given);
    EXPECT_TRUE(meeting.ok() && *meeting);
    return std::pair((*meeting)->rank, (*meeting)->world_size);
  };
  for (const char* address : {"", "env://", "tcp://127.0.0.1:29500"})
    EXPECT_EQ(ranks({address}), std::pair(2, 4)) << address;
  EXPECT_EQ(ranks({"", 1}), std::pair(1, 4));
  EXPECT_EQ(ranks({"", -1, 3}), std::pair(2, 3));
  ::setenv("RANK", "two", 1);
  expect_error(meeting_of(Rendezvous{"", -1, 3}), "RANK is 'two'");
}

TEST_F(MeetingTest, TheFirstStartWaitsAsTheProgramOrTheEnvironmentSays) {
  using namespace std::chrono_literals;
  const Rendezvous silent{"tcp://127.0.0.1:29500", 0, 2}, says{"tcp://127.0.0.1:29500", 0, 2, 7s};
  EXPECT_EQ((*meeting_of(silent))->wait, 300s);
  ::setenv("LOCKSTEP_INIT_TIMEOUT", "1800", 1);
  EXPECT_EQ((*meeting_of(silent))->wait, 1800s);
  EXPECT_EQ((*meeting_of(says))->wait, 7s);
  for (const char* wrong : {"0", "1801", "-1", "5m", "soon", "1.5"}) {
    ::setenv("LOCKSTEP_INIT_TIMEOUT", wrong, 1);
    expect_error(meeting_of(silent), std::string("LOCKSTEP_INIT_TIMEOUT is '") + wrong +
                                         "'; it is how long the first start waits");
  }
}

TEST_F(MeetingTest, HalfAWordIsNoRunOfOne) {
  ::setenv("RANK", "0", 1);
  expect_error(meeting_of(Rendezvous{"tcp://127.0.0.1:29500"}), "only one is set");
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("MASTER_PORT", "29500", 1);
  for (const auto& given : {std::optional<Rendezvous>(), std::optional(Rendezvous{})})
    expect_error(meeting_of(given), "RANK is '0', and WORLD_SIZE is not set");
}

TEST_F(MeetingTest, HalfAWordIsNoRunOfOneWithoutAnAddressEither) {
  for (const char* rank : {"1", "abc"}) {
    ::setenv("RANK", rank, 1);
    expect_error(meeting_of(std::nullopt), std::string("RANK is '") + rank + "', and WORLD_SIZE");
  }
  ::setenv("RANK", "0", 1);
  EXPECT_FALSE(*meeting_of(std::nullopt));
  ::unsetenv("RANK");
  for (const char* world : {"2", "abc"}) {
    ::setenv("WORLD_SIZE", world, 1);
    expect_error(meeting_of(std::nullopt), std::string("WORLD_SIZE is '") + world + "', and RANK");
  }
  ::setenv("WORLD_SIZE", "1", 1);
  EXPECT_FALSE(*meeting_of(std::nullopt));
}

TEST_F(MeetingTest, WithoutAWordTheEnvironmentDecides) {
  EXPECT_FALSE(*meeting_of(std::nullopt));
  ::setenv("MASTER_ADDR", "127.0.0.1", 1);
  ::setenv("MASTER_PORT", "29500", 1);
  EXPECT_FALSE(*meeting_of(std::nullopt));  // strays of a shell
  ::setenv("WORLD_SIZE", "4", 1);
  expect_error(meeting_of(std::nullopt), "WORLD_SIZE is '4', and RANK is not set");
  ::setenv("RANK", "2", 1);
  const auto meeting = meeting_of(std::nullopt);
  ASSERT_TRUE(meeting.ok() && *meeting);
  EXPECT_EQ((*meeting)->rank, 2);
  EXPECT_EQ((*meeting)->world_size, 4);
  ::setenv("RANK", "two", 1);
  expect_error(meeting_of(std::nullopt), "RANK is 'two'");
  ::setenv("RANK", "2", 1);
  ::unsetenv("MASTER_PORT");
  expect_error(meeting_of(std::nullopt), "nothing says where the others are");
  // Another launcher's rank, or a script's child: to train alone would be a surprise.
  ::setenv("TORCHELASTIC_RUN_ID", "none", 1);
  expect_error(meeting_of(std::nullopt), "this process is rank 2 of 4 of another launcher");
  ::setenv("WORLD_SIZE", "1", 1);
  EXPECT_FALSE(*meeting_of(std::nullopt));
}

}  // namespace
}  // namespace lockstep::worker

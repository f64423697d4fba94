// What a worker's environment says of its place, on one host and on several.
#include "launcher/processes/worker_env.h"

#include <gmock/gmock.h>

#include <cstdlib>
#include <ctime>
#include <map>
#include <string>

#include "launcher/processes/watcher.h"

namespace lockstep::launcher {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::IsSupersetOf;
using testing::Key;
using testing::Not;
using testing::Pair;

coord::action::Spawn spawn_of(int rank, int local_rank, int world) {
  coord::action::Spawn spawn;
  spawn.rank = Rank(rank);
  spawn.local_rank = LocalRank(local_rank);
  spawn.world_size = world;
  return spawn;
}

std::map<std::string, std::string> environment(const coord::action::Spawn& spawn,
                                               const Place& place) {
  std::map<std::string, std::string> named;
  for (const auto& [name, value] : worker_variables({}, spawn, place, ""))
    EXPECT_TRUE(named.emplace(name, value).second) << name << " is there twice";
  return named;
}

TEST(WorkerEnvironment, OnOneHostGroupAndRoleAreTheWorld) {
  LaunchOptions options;
  options.master_addr = "example";
  const auto spawn = spawn_of(2, 1, 4);  // of a linked program: the order may differ
  const auto named = environment(spawn, place_on_one_host(options, spawn, 1234, true));
  EXPECT_THAT(named, IsSupersetOf({Pair("RANK", "2"), Pair("LOCAL_RANK", "1"),
                                   Pair("WORLD_SIZE", "4"), Pair("LOCAL_WORLD_SIZE", "4"),
                                   Pair("GROUP_RANK", "0"), Pair("GROUP_WORLD_SIZE", "1"),
                                   Pair("ROLE_RANK", "2"), Pair("ROLE_WORLD_SIZE", "4"),
                                   Pair("MASTER_ADDR", "example"), Pair("MASTER_PORT", "1234"),
                                   Pair("TORCHELASTIC_USE_AGENT_STORE", "True")}));
  EXPECT_THAT(named, Not(Contains(Key("GLOO_SOCKET_IFNAME"))));
}

Place second_of_three() {
  Place place;
  place.local_world_size = 2;
  place.group_rank = 1;
  place.group_world_size = 3;
  place.role_base_rank = 3;
  place.role_world_size = 5;  // another role has the sixth
  place.master_addr = "fd00::7";
  place.master_port = 29500;
  place.interface = "eth7";
  return place;
}

TEST(WorkerEnvironment, OnSeveralNodesIsThePlaces) {
  ::unsetenv("GLOO_SOCKET_IFNAME");
  EXPECT_THAT(
      environment(spawn_of(4, 1, 6), second_of_three()),
      IsSupersetOf(
          {Pair("RANK", "4"), Pair("LOCAL_RANK", "1"), Pair("WORLD_SIZE", "6"),
           Pair("LOCAL_WORLD_SIZE", "2"), Pair("GROUP_RANK", "1"), Pair("GROUP_WORLD_SIZE", "3"),
           Pair("ROLE_RANK", "4"), Pair("ROLE_WORLD_SIZE", "5"), Pair("MASTER_ADDR", "fd00::7"),
           Pair("MASTER_PORT", "29500"), Pair("GLOO_SOCKET_IFNAME", "eth7"),
           Pair("TP_SOCKET_IFNAME", "eth7"), Pair("TORCHELASTIC_USE_AGENT_STORE", "False")}));
}

// LOCKSTEP_LAUNCHER is the program that starts a worker's own runs (lockstep::spawn()).
TEST(WorkerEnvironment, TheMarkerIsNoVariableOfTheUsers) {
  const auto watcher = Watcher::start(1, CLOCK_BOOTTIME);
  ASSERT_TRUE(watcher.ok());
  Place place = second_of_three();
  place.marker = (*watcher)->marker();
  EXPECT_THAT(environment(spawn_of(4, 1, 6), place),
              AllOf(Contains(Key("LOCKSTEP_STARTED_BY")), Not(Contains(Key("LOCKSTEP_LAUNCHER")))));
  EXPECT_THAT(worker_variable_names(), Not(Contains("LOCKSTEP_LAUNCHER")));
}

TEST(WorkerEnvironment, TheUsersGlooInterfaceStays) {
  ::setenv("GLOO_SOCKET_IFNAME", "ib0", 1);
  EXPECT_THAT(environment(spawn_of(4, 1, 6), second_of_three()),
              Not(Contains(Key("GLOO_SOCKET_IFNAME"))));  // inherited
  EXPECT_THAT(environment(spawn_of(4, 1, 6), second_of_three()),
              Contains(Pair("TP_SOCKET_IFNAME", "eth7")));  // each is of its own
  ::setenv("GLOO_SOCKET_IFNAME", "", 1);
  EXPECT_THAT(environment(spawn_of(4, 1, 6), second_of_three()),
              Contains(Pair("GLOO_SOCKET_IFNAME", "eth7")));
  ::unsetenv("GLOO_SOCKET_IFNAME");
}

TEST(WorkerEnvironment, WhatTheUserMaySetIsInherited) {
  EXPECT_THAT(worker_variable_names(), Not(Contains("GLOO_SOCKET_IFNAME")));
  EXPECT_THAT(worker_variable_names(), Contains("GROUP_RANK"));
}

}  // namespace
}  // namespace lockstep::launcher

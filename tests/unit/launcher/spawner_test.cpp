// A zygote of another version than the launcher's, and one whose words nobody reads.
#include "launcher/processes/spawner.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coord/version.h"
#include "launcher/processes/worker_env.h"
#include "support/temp_folder.h"
#include "support/until.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
namespace event = coord::event;

// A program that has one word for the agent, as that it is of this version; then it sleeps.
class Zygote {
 public:
  explicit Zygote(std::uint32_t version) : Zygote(coord::message::ZygoteReady{version}) {}
  explicit Zygote(const coord::Message& word) {
    const std::string& file = word_;
    std::ofstream(file) << coord::encode(word).value();
    program_.name = program_.file = "/bin/bash";
    program_.arguments = {"bash", "-c",
                          "cat " + file + " >&$LOCKSTEP_ZYGOTE_FD; rm " + file + "; exec sleep 60"};
    program_.linked = true;
  }

  // What the coordinator is told of it.
  coord::Event first_event() {
    auto loop = Loop::open();
    EXPECT_TRUE(loop.ok());
    const LaunchOptions options;
    std::vector<coord::Event> events;
    Spawner spawner(options, program_, {}, *loop,
                    [&](coord::Event e) { events.push_back(std::move(e)); });
    spawner.restart_zygote();
    const pid_t pid = spawner.zygote_pid();
    EXPECT_GT(pid, 0);
    const Deadline deadline = Deadline::in(10s);
    while (events.empty() && !deadline.passed()) loop->run_once(deadline);
    spawner.close();
    EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);  // it is killed, or this would take a minute
    return events.empty() ? coord::Event(event::Tick{}) : events.front();
  }

  // Whether a child of ours ends with it, whose word has come and is not read.
  bool takes_along(pid_t child) {
    auto loop = Loop::open();
    EXPECT_TRUE(loop.ok());
    const LaunchOptions options;
    Spawner spawner(options, program_, {}, *loop, [](const coord::Event&) {});
    spawner.restart_zygote();
    const pid_t pid = spawner.zygote_pid();
    EXPECT_TRUE(test::until([&] { return !std::filesystem::exists(word_); }));
    spawner.close();
    EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
    const bool ended = test::until([&] { return ::waitpid(child, nullptr, WNOHANG) == child; }, 5s);
    if (!ended) ::kill(child, SIGKILL), ::waitpid(child, nullptr, 0);
    return ended;
  }

 private:
  test::TempFolder folder_;
  const std::string word_ = folder_ / "word";
  Program program_;
};

TEST(Spawner, AZygoteOfAnotherVersionIsRefused) {
  const auto event = Zygote(coord::kProtocolVersion - 1).first_event();
  const auto* lost = std::get_if<event::ZygoteLost>(&event);
  ASSERT_NE(lost, nullptr);
  EXPECT_EQ(lost->status.code, 2);
  for (const std::uint32_t version : {coord::kProtocolVersion - 1, coord::kProtocolVersion})
    EXPECT_NE(lost->not_started.find("version " + std::to_string(version)), std::string::npos)
        << lost->not_started;
}

// The zygote has told its pid, and the run ends before anybody has read that.
TEST(Spawner, AWorkerThatNobodyHasHeardOfIsEnded) {
  const pid_t worker = ::fork();
  if (worker == 0) {
    ::setsid();
    ::sleep(60);
    ::_exit(0);
  }
  EXPECT_TRUE(Zygote(coord::message::Forked{1, worker}).takes_along(worker));
}

TEST(Spawner, AZygoteOfThisVersionIsReady) {
  const auto event = Zygote(coord::kProtocolVersion).first_event();
  EXPECT_TRUE(std::holds_alternative<event::ZygoteReady>(event));
}

// All workers of a node would have the same one.
TEST(WorkerEnvironment, WhatBindsThreadsToCpusIsKnown) {
  using Variables = std::map<std::string, std::string>;
  const auto binding = [](const Variables& variables) {
    return binding_variable([&](std::string_view name) -> std::optional<std::string> {
      const auto found = variables.find(std::string(name));
      if (found == variables.end()) return std::nullopt;
      return found->second;
    });
  };
  EXPECT_EQ(binding({{"OMP_PROC_BIND", "TRUE"}}), "OMP_PROC_BIND=TRUE");
  EXPECT_EQ(binding({{"OMP_PROC_BIND", "spread,close"}}), "OMP_PROC_BIND=spread,close");
  EXPECT_EQ(binding({{"OMP_PLACES", "cores"}}), "OMP_PLACES=cores");
  EXPECT_EQ(binding({{"GOMP_CPU_AFFINITY", "0-3"}, {"OMP_PLACES", "cores"}}),
            "GOMP_CPU_AFFINITY=0-3");
  EXPECT_EQ(binding({{"OMP_PROC_BIND", "False"}, {"OMP_PLACES", "cores"}}), "");
  EXPECT_EQ(binding({{"OMP_PROC_BIND", ""}, {"OMP_NUM_THREADS", "2"}}), "");
}

TEST(LinkedProgram, HasItsHeapInHugePagesUnlessTheUserHasTunedIt) {
  ::unsetenv("GLIBC_TUNABLES");
  const auto has = [] {
    const auto variables = linked_program_variables();
    return std::ranges::count(variables, "GLIBC_TUNABLES=glibc.malloc.hugetlb=1");
  };
  EXPECT_EQ(has(), 1);
  ::setenv("GLIBC_TUNABLES", "glibc.malloc.check=1", 1);
  EXPECT_EQ(has(), 0);
  ::unsetenv("GLIBC_TUNABLES");
}

}  // namespace
}  // namespace lockstep::launcher

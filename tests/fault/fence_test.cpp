// Launchers of several nodes that are stopped while their workers could run on: at no time do
// workers of two attempts live. Three launchers on this machine, L = 2 s; each worker writes into
// one file, every 20 ms, which attempt it is of and what time it is.
#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "fault/plain_support.h"
#include "support/until.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

constexpr int kNodes = 3, kEach = 2;

class Fence : public Plain {
 protected:
  // `around`: the one that writes, which heeds no TERM, is not the worker, but started by it, in
  // this way: "env", in its group; "timeout 99", in another one; "setsid", in another session.
  void start(const std::string& around = "") {
    std::string worker = script("writes",
                                "#!/bin/bash\n"
                                "trap '' TERM\n"
                                "while [ ! -e \"$END\" ]; do\n"
                                "  echo \"$TORCHELASTIC_RESTART_COUNT $GROUP_RANK $$ "
                                "$EPOCHREALTIME\" >> \"$WITNESS\" || exit\n"
                                "  sleep 0.02\n"
                                "done\n");
    if (!around.empty())
      worker = script("around", "#!/bin/bash\n" + around + " " + worker +
                                    " &\n"
                                    "while kill -0 $! 2>/dev/null; do\n"
                                    "  [ $RANK.$TORCHELASTIC_RESTART_COUNT = 3.0 -a -e \"$DIE\" ] "
                                    "&& kill -KILL $$\n"
                                    "  sleep 0.02\n"
                                    "done\n");
    launch_all(worker);
    ASSERT_TRUE(until([&] { return works(0); })) << err();
  }
  void launch_all(const std::string& worker) {
    const std::string id = "fence-" + std::to_string(::getpid());
    const std::string endpoint = "127.0.0.1:" + std::to_string(free_port());
    for (int rank = 0; rank < kNodes; ++rank)
      launchers_[static_cast<std::size_t>(rank)] = std::make_unique<Child>(
          command_of(
              {"--nnodes", std::to_string(kNodes), "--node-rank", std::to_string(rank),
               "--nproc-per-node", std::to_string(kEach), "--rdzv-endpoint", endpoint, "--rdzv-id",
               id, "--rdzv-conf", "keep_alive_interval=1,keep_alive_max_attempt=2",
               "--max-restarts", "1", "--no-python"},
              {worker}),
          Child::Variables{{"WITNESS", folder_ / "witness"},
                           {"END", folder_ / "end"},
                           {"DIE", folder_ / "die"}});
  }
  Child& launcher(int rank) { return *launchers_[static_cast<std::size_t>(rank)]; }
  std::string err() {
    std::string text;
    for (int rank = 0; rank < kNodes; ++rank) text += launcher(rank).err() + "\n";
    return text;
  }

  struct Stamp {
    int attempt = 0, node = 0;
    pid_t pid = 0;
    double at = 0;
  };
  std::vector<Stamp> witness() const {
    std::vector<Stamp> stamps;
    std::istringstream lines(read_text(folder_ / "witness"));
    for (Stamp s; lines >> s.attempt >> s.node >> s.pid >> s.at;) stamps.push_back(s);
    return stamps;
  }
  // All workers of that attempt have been seen.
  bool works(int attempt) const {
    std::set<pid_t> pids;
    for (const Stamp& stamp : witness())
      if (stamp.attempt == attempt) pids.insert(stamp.pid);
    return pids.size() == kNodes * kEach;
  }
  // The last sign of an attempt's workers on one node, or on all; the first of an attempt's.
  double last_of(int attempt, int node = -1) const {
    double at = 0;
    for (const Stamp& s : witness())
      if (s.attempt == attempt && (node < 0 || node == s.node)) at = std::max(at, s.at);
    return at;
  }
  double first_of(int attempt) const {
    double at = 1e18;
    for (const Stamp& s : witness())
      if (s.attempt == attempt) at = std::min(at, s.at);
    return at;
  }

  void end_well() {
    folder_.write("end", "");
    for (int rank = 0; rank < kNodes; ++rank) {
      const Outcome outcome = launcher(rank).wait(30s);
      EXPECT_EQ(outcome.code, 0) << outcome.err;
      EXPECT_THAT(outcome.err, ::testing::HasSubstr("the group starts again (restart 1 of 1)"));
    }
  }
  // One launcher is stopped, for longer than L; no worker is.
  void stop_and_continue(int victim, const std::string& around) {
    start(around);
    const double stopped = now();
    launcher(victim).send(SIGSTOP);
    std::this_thread::sleep_for(4500ms);
    EXPECT_FALSE(works(1)) << "all wait for the one that is stopped";
    const double fenced = last_of(0, victim) - stopped;
    EXPECT_LT(fenced, 4.0) << "its workers end at L, with the watcher's delay";
    EXPECT_GT(fenced, 0.5) << "and not before";
    launcher(victim).send(SIGCONT);
    ASSERT_TRUE(until([&] { return works(1); })) << err();
    EXPECT_LT(last_of(0), first_of(1)) << "two attempts at once";
    end_well();
    for (int rank = 0; rank < kNodes; ++rank)
      EXPECT_THAT(launcher(rank).err(), ::testing::Not(::testing::HasSubstr("SIGKILL")));
  }
  static double now() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }

  std::array<std::unique_ptr<Child>, kNodes> launchers_;
};

TEST_F(Fence, ANodesLauncherIsStopped) { stop_and_continue(1, "setsid timeout 99"); }

// What it has started lives on, and would meet the next attempt's.
class FenceAround : public Fence, public testing::WithParamInterface<std::string> {};

TEST_P(FenceAround, AWorkerDiesThatIsAScriptAroundAnother) {
  start(GetParam());
  folder_.write("die", "");
  ASSERT_TRUE(until([&] { return works(1); })) << err();
  EXPECT_LT(last_of(0), first_of(1)) << "two attempts at once";
  end_well();
}

// The last one is a daemon: nobody's child, but the launcher's.
INSTANTIATE_TEST_SUITE_P(
    Ways, FenceAround,
    testing::Values(
        "env", "timeout 99", "setsid",
        R"(sh -c 'setsid sh -c "timeout 99 $0 &"; while [ ! -e "$END" ]; do sleep 0.1; done')"),
    [](const auto& way) { return "Way" + std::to_string(way.index); });

// At the run's end, while it waits for what a worker has left behind.
TEST_F(Fence, ALauncherIsKilledWhoseRunHasEnded) {
  launch_all(script("leaves",
                    "#!/bin/bash\n"
                    "[ $RANK = 3 ] || exit 0\n"
                    "setsid sh -c 'while touch \"$WITNESS\"; do sleep 0.01; done' &\n"
                    "until [ -e \"$WITNESS\" ]; do sleep 0.01; done\n"));
  for (const int rank : {0, 2}) EXPECT_EQ(launcher(rank).wait(30s).code, 0);
  ASSERT_TRUE(std::filesystem::exists(folder_ / "witness"));
  launcher(1).send(SIGKILL);
  EXPECT_EQ(launcher(1).wait(5s).code, -SIGKILL) << "it waits";
  EXPECT_TRUE(until([&] {
    std::filesystem::remove(folder_ / "witness");
    std::this_thread::sleep_for(100ms);
    return !std::filesystem::exists(folder_ / "witness") && processes_with(folder_.path()).empty();
  })) << "what the worker has left behind lives on";
}

TEST_F(Fence, TheLeaderIsStopped) { stop_and_continue(0, ""); }

}  // namespace
}  // namespace lockstep::test

#include "launcher/processes/vitals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <tuple>
#include <utility>

#include "base/deadline.h"
#include "support/file_tree.h"
#include "support/until.h"

namespace lockstep::launcher {
namespace {

TEST(Vitals, StoppedAndTracedAreHeld) {
  const auto status = [](const char* state, const char* tracer) {
    return std::string("Name:\tx\nState:\t") + state + "\nTgid:\t5\nTracerPid:\t" + tracer +
           "\nUid:\t0\n";
  };
  EXPECT_FALSE(is_held(status("R (running)", "0")));
  EXPECT_FALSE(is_held(status("S (sleeping)", "0")));
  EXPECT_FALSE(is_held(status("D (disk sleep)", "0"))) << "a slow disk is the program's own wait";
  EXPECT_TRUE(is_held(status("T (stopped)", "0")));
  EXPECT_TRUE(is_held(status("t (tracing stop)", "4711")));
  EXPECT_TRUE(is_held(status("S (sleeping)", "17"))) << "somebody debugs it";
  EXPECT_FALSE(is_held(""));
  EXPECT_FALSE(is_held("State:\t"));
}

TEST(Vitals, FrozenInEitherVersionOfControlGroups) {
  test::FileTree tree;
  tree.files = {{"/proc/self/mountinfo",
                 "30 24 0:26 / /v2 rw - cgroup2 cgroup2 rw\n"
                 "31 24 0:27 / /opt/freezer rw - cgroup none rw,freezer\n"
                 "32 24 0:28 / /opt/cpu rw - cgroup none rw,cpu,cpuacct\n"},
                {"/opt/freezer/a/freezer.state", "THAWED\n"},
                {"/opt/freezer/b/freezer.state", "FROZEN\n"},
                {"/opt/freezer/c/freezer.state", "FREEZING\n"},
                {"/opt/cpu/b/freezer.state", "FROZEN\n"},
                {"/v2/a/cgroup.events", "populated 1\nfrozen 0\n"},
                {"/v2/b/cgroup.events", "populated 1\nfrozen 1\n"}};
  const ControlGroups groups(tree);
  const auto frozen = [&](const std::string& text) {
    tree.files["/proc/71/cgroup"] = text;
    return is_frozen(groups, "71");
  };
  EXPECT_FALSE(frozen("6:freezer:/a\n0::/a\n"));
  EXPECT_TRUE(frozen("9:pids:/\n6:freezer:/b\n0::/\n"));
  EXPECT_TRUE(frozen("6:freezer:/c\n"));
  EXPECT_TRUE(frozen("0::/b\n"));
  EXPECT_TRUE(frozen("6:freezer:/a\n0::/b"));
  EXPECT_FALSE(frozen("3:cpu,cpuacct:/b\n"));
  EXPECT_FALSE(frozen("0::/no-such-group\n"));
  EXPECT_FALSE(is_frozen(groups, "72")) << "it is gone";
}

// Looked at less and less often, and never so rarely that a strict limit is missed by much.
TEST(Vitals, ALongStandstillIsLookedAtNowAndThen) {
  using namespace std::chrono_literals;
  const auto pause = [](std::chrono::nanoseconds still, auto... strict) {
    return pause_between_looks(still, std::optional<std::chrono::nanoseconds>(strict...));
  };
  EXPECT_EQ(pause(0s), 100ms);
  EXPECT_EQ(pause(900ms), 100ms);
  EXPECT_EQ(pause(5s), 500ms);
  EXPECT_EQ(pause(1h), 1s);
  EXPECT_EQ(pause(1h, 1s), 100ms);
  EXPECT_EQ(pause(1h, 4s), 400ms);
  EXPECT_EQ(pause(1h, 60s), 1s);
}

// A process of our own: it computes, then sleeps, then is stopped.
TEST(Vitals, TellWhatAProcessDoes) {
  const pid_t pid = ::fork();
  if (pid == 0)
    for (;;) {
    }
  Vitals vitals;
  const auto look_for = [&](double seconds, bool waits) {
    const std::uint64_t begin = monotonic_ns();
    vitals.skip();
    const coord::WorkerVitals before = vitals.so_far();
    vitals.look(pid, waits, begin);
    pause(std::chrono::milliseconds(static_cast<int>(1000 * seconds)));
    const std::uint64_t end = monotonic_ns();
    vitals.look(pid, waits, end);
    const auto span = static_cast<double>(end - begin);
    return std::pair(static_cast<double>(vitals.so_far().ran_ns - before.ran_ns) / span,
                     static_cast<double>(vitals.so_far().excused_ns - before.excused_ns) / span);
  };
  double ran = 0, starved = 0;
  // Once more where this process has had no CPU between the clock and its look.
  EXPECT_TRUE(test::until(
      [&] {
        std::tie(ran, starved) = look_for(0.3, false);
        return ran + starved > 0.8 && ran < 1.2;
      },
      std::chrono::seconds(20)))
      << "it runs, or has no CPU: " << ran << ", " << starved;
  EXPECT_DOUBLE_EQ(look_for(0.1, /*waits=*/true).second, 1);
  ::kill(pid, SIGSTOP);
  ::waitpid(pid, nullptr, WUNTRACED);
  const auto [ran_stopped, held] = look_for(0.1, false);
  EXPECT_LT(ran_stopped, 0.1);
  EXPECT_DOUBLE_EQ(held, 1);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  vitals.look(pid, false, monotonic_ns());  // it is gone: nothing is read, and nothing happens
}

}  // namespace
}  // namespace lockstep::launcher

#include "launcher/processes/vitals.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/deadline.h"
#include "support/temp_folder.h"

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
  const test::TempFolder folder;
  const auto write = [&](const std::string& file, const std::string& text) {
    const std::filesystem::path path = folder / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  };
  write("freezer/a/freezer.state", "THAWED\n");
  write("freezer/b/freezer.state", "FROZEN\n");
  write("freezer/c/freezer.state", "FREEZING\n");
  write("a/cgroup.events", "populated 1\nfrozen 0\n");
  write("b/cgroup.events", "populated 1\nfrozen 1\n");
  write("unified/c/cgroup.events", "populated 1\nfrozen 1\n");
  const auto frozen = [&](const std::string& text) { return is_frozen(text, folder.path()); };
  EXPECT_FALSE(frozen("6:freezer:/a\n0::/a\n"));
  EXPECT_TRUE(frozen("9:pids:/\n6:freezer:/b\n0::/\n"));
  EXPECT_TRUE(frozen("6:freezer:/c\n"));
  EXPECT_TRUE(frozen("0::/b\n"));
  EXPECT_TRUE(frozen("0::/c"));
  EXPECT_FALSE(frozen("3:cpu,cpuacct:/b\n"));
  EXPECT_FALSE(frozen("0::/no-such-group\n"));
  for (const char* text : {"", "\n", ":", "::", "x", "6:freezer", "0::"})
    EXPECT_FALSE(frozen(text));
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
  const auto [ran, starved] = look_for(0.3, false);
  EXPECT_GT(ran + starved, 0.8) << "it runs, or has no CPU";
  EXPECT_LT(ran, 1.2);
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

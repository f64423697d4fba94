// What kills workers where the launcher cannot: with real processes.
#include "launcher/processes/watcher.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/processes.h"
#include "launcher/processes/process.h"
#include "launcher/processes/process_tree.h"
#include "support/child.h"
#include "support/until.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;
using test::until;

std::uint64_t from_now(std::chrono::nanoseconds time) {
  return clock_ns(CLOCK_BOOTTIME) + static_cast<std::uint64_t>(time.count());
}

pid_t start_worker(Watcher& watcher, const std::string& program = "/bin/sleep",
                   const std::string& shell_script = "", bool marked = true) {
  SpawnSpec spec;
  spec.file = program;
  spec.arguments = {program, "60"};
  if (!shell_script.empty()) spec.arguments = {program, "-c", shell_script};
  if (marked) spec.environment = {watcher.marker()};
  spec.pid_slot = watcher.free_slot();
  EXPECT_NE(spec.pid_slot, nullptr);
  const auto pid = spawn_process(spec);
  return pid.ok() ? *pid : -1;
}

bool lives(pid_t pid) {
  const auto stat = stat_of(pid);
  return stat && stat->state != 'Z';
}

void reap_watched(pid_t pid) { EXPECT_EQ(::waitpid(pid, nullptr, 0), pid); }

class WatcherTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // as a launcher
    auto started = Watcher::start(2, CLOCK_BOOTTIME);
    ASSERT_TRUE(started.ok()) << started.error().message;
    watcher_ = *std::move(started);
  }
  void TearDown() override {
    watcher_.reset();
    ::prctl(PR_SET_CHILD_SUBREAPER, 0);
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }
  // Must be dead by now; reaps it.
  void expect_killed(pid_t worker) {
    int status = 0;
    ASSERT_TRUE(until([&] { return ::waitpid(worker, &status, WNOHANG) == worker; }, 20s));
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  }

  std::unique_ptr<Watcher> watcher_;
};

TEST_F(WatcherTest, WorkersLiveAsLongAsTheTimeIsRenewedAndNoLonger) {
  watcher_->allow_until(from_now(2s));
  const pid_t one = start_worker(*watcher_), other = start_worker(*watcher_);
  EXPECT_EQ(watcher_->free_slot(), nullptr) << "there are two slots";
  for (int i = 0; i < 25; ++i) {
    pause(100ms);
    watcher_->allow_until(from_now(2s));
  }
  EXPECT_TRUE(lives(one) && lives(other));
  const std::uint64_t last = from_now(2s);
  watcher_->allow_until(last);
  expect_killed(one);
  EXPECT_GE(clock_ns(CLOCK_BOOTTIME), last);
  expect_killed(other);
}

TEST_F(WatcherTest, WhatAWorkerHasStartedEndsWithIt) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  SpawnSpec spec;
  spec.file = "/bin/sh";
  spec.arguments = {"sh", "-c",
                    "sleep 60 & timeout 60 sleep 60 & setsid timeout 60 sleep 60 & echo; wait"};
  spec.stdout_fd = pipe[1];
  spec.pid_slot = watcher_->free_slot();
  const auto worker = spawn_process(spec);
  ASSERT_TRUE(worker.ok());
  ::close(pipe[1]);
  std::array<char, 2> text{};
  EXPECT_EQ(::read(pipe[0], text.data(), text.size()), 1);
  watcher_->allow_until(from_now(0ms));
  reap_watched(*worker);  // killed, or at its own end, as those are whom it waits for
  pollfd end{pipe[0], POLLIN, 0};
  ASSERT_EQ(::poll(&end, 1, 20000), 1);
  EXPECT_EQ(::read(pipe[0], text.data(), text.size()), 0) << "both ends of it are closed";
  ::close(pipe[0]);
}

// As the `tee` of a shell that has executed the launcher (`lockstep run … > >(tee log)`).
TEST_F(WatcherTest, LeavesAloneWhoWasThereBefore) {
  SpawnSpec spec;
  spec.file = "/bin/sleep";
  spec.arguments = {"sleep", "60"};
  const auto tee = spawn_process(spec);
  ASSERT_TRUE(tee.ok());
  watcher_ = *Watcher::start(1, CLOCK_BOOTTIME);
  const pid_t worker = start_worker(*watcher_);
  watcher_->allow_until(from_now(0ms));
  expect_killed(worker);
  pause(100ms);  // it looks again
  EXPECT_TRUE(lives(*tee));
  ::kill(*tee, SIGKILL), reap_watched(*tee);
}

// Who is started after a launcher that was killed may begin once the lock is free.
TEST_F(WatcherTest, HoldsALockUntilNothingOfTheWorkersIsLeft) {
  std::array<int, 2> lock{}, said{};
  ASSERT_EQ(::pipe2(lock.data(), O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(said.data(), O_CLOEXEC), 0);
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    const auto watcher = Watcher::start(1, CLOCK_BOOTTIME);
    SpawnSpec spec;
    spec.file = "/bin/sh";  // around a program that heeds no TERM
    spec.arguments = {"sh", "-c", "(trap '' TERM; echo; sleep 60; sleep 60) & wait"};
    spec.stdout_fd = said[1];
    spec.pid_slot = (*watcher)->free_slot();
    if (!(*watcher)->hold(lock[1]).ok() || !spawn_process(spec).ok()) ::_exit(1);
    for (;;) ::pause();
  }
  ::close(lock[1]), ::close(said[1]);
  char text = 0;
  EXPECT_EQ(::read(said[0], &text, 1), 1);
  const Deadline moment = Deadline::in(100ms);
  ::kill(launcher, SIGKILL), reap_watched(launcher);
  pollfd is_free{lock[0], POLLIN, 0}, is_silent{said[0], POLLIN, 0};
  EXPECT_EQ(::poll(&is_free, 1, 20000), 1);
  EXPECT_TRUE(moment.passed()) << "the program has a moment to clean up";
  EXPECT_EQ(::poll(&is_silent, 1, 0), 1) << "nobody has its end any more";
  ::close(lock[0]), ::close(said[0]);
}

// pkill -9 -f "lockstep run" is to leave it.
TEST_F(WatcherTest, HasACommandLineOfItsOwn) {
  const std::string file = "/proc/" + std::to_string(watcher_->pid()) + "/cmdline";
  EXPECT_TRUE(until([&] { return std::string(test::read_text(file).c_str()) == "fence"; }, 20s));
}

TEST_F(WatcherTest, AnEarlierTimeCountsAtOnce) {
  watcher_->allow_until(from_now(60s));
  const pid_t worker = start_worker(*watcher_);
  watcher_->allow_until(from_now(100ms));
  expect_killed(worker);
}

TEST_F(WatcherTest, WithoutATimeNobodyIsKilledAndASlotThatIsLeftIsFree) {
  watcher_->allow_until(from_now(0ms));
  const pid_t late = start_worker(*watcher_);  // after the time
  expect_killed(late);
  watcher_->allow_until(0);
  ASSERT_TRUE(until([&] { return stat_of(watcher_->pid())->state == 'S'; }, 20s))
      << "it has looked";
  const pid_t worker = start_worker(*watcher_);
  EXPECT_EQ(watcher_->free_slot(), nullptr);
  watcher_->ended(late);
  EXPECT_NE(watcher_->free_slot(), nullptr);
  pause(500ms);
  EXPECT_TRUE(lives(worker));
  ::kill(worker, SIGKILL), reap_watched(worker);
}

// Which goes on while the machine is suspended, and rings as it wakes.
TEST_F(WatcherTest, ItsTimerIsThatOfTheBoot) {
  watcher_->allow_until(from_now(60s));
  const std::string info = "/proc/" + std::to_string(watcher_->pid()) + "/fdinfo/0";
  const std::string clock = "clockid: " + std::to_string(CLOCK_BOOTTIME) + "\n";
  EXPECT_TRUE(until([&] { return test::read_text(info).find(clock) != std::string::npos; }, 20s));
}

TEST_F(WatcherTest, WhatCannotBeStartedLeavesItsPlace) {
  SpawnSpec spec;
  spec.file = "/nowhere";
  spec.pid_slot = watcher_->free_slot();
  EXPECT_FALSE(spawn_process(spec).ok());
  EXPECT_EQ(watcher_->free_slot(), spec.pid_slot);
}

TEST_F(WatcherTest, TakesNoOtherSignalAndIsFollowedByAnother) {
  watcher_->allow_until(from_now(1s));
  const pid_t worker = start_worker(*watcher_);
  const pid_t first = watcher_->pid();
  EXPECT_EQ(::getpgid(first), first);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGTSTP, SIGQUIT}) ::kill(first, signal);
  pause(50ms);
  EXPECT_TRUE(lives(first));
  ::kill(first, SIGKILL);
  reap_watched(first);
  ASSERT_TRUE(watcher_->start_again().ok());
  EXPECT_NE(watcher_->pid(), first);
  expect_killed(worker);
}

TEST_F(WatcherTest, AWorkersEndIsToldBeforeItIsReaped) {
  const pid_t worker = start_worker(*watcher_, "/bin/false");
  std::vector<pid_t> told;
  std::optional<ChildEvent> event;
  ASSERT_TRUE(until([&] {
    event = next_child_event([&](pid_t pid) {
      EXPECT_EQ(stat_of(pid)->state, 'Z') << "told before it is reaped";
      told.push_back(pid);
    });
    return event.has_value();
  }));
  EXPECT_EQ(event->pid, worker);
  EXPECT_EQ(event->kind, ChildEvent::kExited);
  EXPECT_EQ(event->status, 1);
  EXPECT_EQ(told, std::vector<pid_t>{worker});
  EXPECT_FALSE(stat_of(worker));
}

// A launcher of the test's own, which tells the pids of its watcher and worker.
struct Launched {
  pid_t launcher = -1, watcher = -1, worker = -1;
};
Launched launch(std::chrono::nanoseconds time, const std::string& script = "exec sleep 60",
                bool marked = true) {
  Launched all;
  std::array<int, 2> pipe{};
  EXPECT_EQ(::pipe(pipe.data()), 0);
  all.launcher = ::fork();
  if (all.launcher == 0) {
    ::setpgid(0, 0);
    auto watcher = Watcher::start(1, CLOCK_BOOTTIME);
    (*watcher)->allow_until(from_now(time));
    const std::array<pid_t, 2> pids{(*watcher)->pid(),
                                    start_worker(**watcher, "/bin/sh", script, marked)};
    (void)!::write(pipe[1], pids.data(), sizeof pids);
    ::pause();
    ::_exit(0);
  }
  std::array<pid_t, 2> pids{};
  EXPECT_EQ(::read(pipe[0], pids.data(), sizeof pids), static_cast<ssize_t>(sizeof pids));
  all.watcher = pids[0], all.worker = pids[1];
  for (const int end : pipe) ::close(end);
  return all;
}

TEST(WatcherOf, ALauncherThatIsStoppedWithItsGroup) {
  const Launched all = launch(3s);
  ::kill(-all.launcher, SIGSTOP);
  ASSERT_TRUE(until([&] { return stat_of(all.launcher)->state == 'T'; }, 20s));
  EXPECT_TRUE(lives(all.worker));
  EXPECT_TRUE(until([&] { return !lives(all.worker); }, 15s));
  EXPECT_EQ(stat_of(all.launcher)->state, 'T');
  EXPECT_TRUE(lives(all.watcher));
  ::kill(all.launcher, SIGKILL);
  reap_watched(all.launcher);
  EXPECT_TRUE(until([&] { return !lives(all.watcher); }, 20s));
}

// A worker has started something around which `around` stands, and which heeds no TERM.
void expect_nothing_of_a_killed_launcher(const std::string& around, bool marked) {
  const test::TempFolder folder;
  const std::string mark = folder / "mark";
  const Launched all = launch(
      60s, around + " sh -c \"trap '' TERM; while touch " + mark + "; do sleep 0.01; done\" & wait",
      marked);
  ASSERT_TRUE(until([&] { return std::filesystem::exists(mark); }, 20s));
  ::kill(all.launcher, SIGKILL);
  reap_watched(all.launcher);
  EXPECT_TRUE(until([&] { return !lives(all.watcher); }, 20s));
  std::filesystem::remove(mark);
  pause(200ms);
  EXPECT_FALSE(std::filesystem::exists(mark)) << "what the worker has started runs on";
}

// Python's subprocess module closes the descriptors by which the next launcher would know of it.
TEST(WatcherOf, ALauncherThatIsKilledWithWorkersAroundOthers) {
  expect_nothing_of_a_killed_launcher("timeout 60", false);
}

// As torchrun's own workers are: Popen(start_new_session=True) without inherited descriptors.
TEST(WatcherOf, ALauncherThatIsKilledWithWorkersThatHaveStartedSessions) {
  expect_nothing_of_a_killed_launcher("setsid", true);
}

// Between a worker's end and the next attempt, while the launcher gives them a moment.
TEST(WatcherOf, ALauncherThatIsKilledAfterItsWorkersHaveEnded) {
  std::array<int, 2> said{};
  ASSERT_EQ(::pipe2(said.data(), O_CLOEXEC), 0);
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    const auto watcher = Watcher::start(2, CLOCK_BOOTTIME);
    SpawnSpec spec;
    spec.file = "/bin/sh";
    spec.arguments = {"sh", "-c", "(trap '' TERM; sleep 60; sleep 60) & exit 1"};
    spec.stdout_fd = said[1];
    spec.pid_slot = (*watcher)->free_slot();
    const auto worker = spawn_process(spec);
    while (!next_child_event([&](pid_t pid) { (*watcher)->ended(pid); })) pause(1ms);
    (void)!::write(said[1], "", 1);
    ::close(said[1]);
    for (;;) ::pause();
  }
  ::close(said[1]);
  char text = 0;
  EXPECT_EQ(::read(said[0], &text, 1), 1);
  ::kill(launcher, SIGKILL), reap_watched(launcher);
  pollfd all_gone{said[0], POLLIN, 0};
  EXPECT_EQ(::poll(&all_gone, 1, 20000), 1);
  EXPECT_EQ(::read(said[0], &text, 1), 0) << "what the worker has started runs on";
  ::close(said[0]);
}

TEST(WatcherOf, ALauncherThatIsKilled) {
  const Launched all = launch(60s);
  ::kill(all.launcher, SIGKILL);
  reap_watched(all.launcher);
  EXPECT_TRUE(until([&] { return !lives(all.watcher) && !lives(all.worker); }, 20s));
}

}  // namespace
}  // namespace lockstep::launcher

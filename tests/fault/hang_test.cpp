// Workers that get no further, in real processes: healthy ones are left alone, and what the system
// does to a worker is not held against it. Cases that only wait run side by side.
#include <gmock/gmock.h>
#include <sys/ptrace.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <list>

#include "fault/launcher_support.h"
#include "support/output.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class Hangs : public ToyRun {
 protected:
  struct Case {
    std::string name;
    Child launcher;
    Case(std::string run, const Words& words) : name(std::move(run)), launcher(words) {}
  };
  Case& start(const std::string& name, const Words& launcher, const Words& toy) {
    Words options{"--txns", "20"};
    options.insert(options.end(), toy.begin(), toy.end());
    return cases_.emplace_back(name, command(launcher, options, name));
  }
  // The process that has said that it stands still.
  static pid_t of(Case& run) {
    const std::string text = "stands still, process ";
    EXPECT_TRUE(run.launcher.wait_for_output(text)) << run.launcher.err();
    const std::string out = run.launcher.out();
    return static_cast<pid_t>(std::atol(out.c_str() + out.find(text) + text.size()));
  }
  void expect_unharmed(Case& run, std::chrono::seconds limit = 90s) {
    const Outcome outcome = run.launcher.wait(limit);
    EXPECT_EQ(outcome.code, 0) << run.name << ": " << outcome.err;
    EXPECT_EQ(incidents(run.name), 0) << run.name << ": " << outcome.err;
    EXPECT_EQ(last_line(outcome.out), expected_) << run.name;
  }
  // One worker was evicted as hung, and nothing else happened.
  void expect_eviction(Case& run) {
    const Outcome outcome = run.launcher.wait();
    EXPECT_EQ(outcome.code, 0) << run.name << ": " << outcome.err;
    EXPECT_EQ(incidents(run.name), 1) << run.name << ": " << outcome.err;
    const double seconds = number_behind(outcome.err, "hung in backward for ");
    EXPECT_GE(seconds, 2) << run.name << ": " << outcome.err;
    EXPECT_LT(seconds, 30) << run.name << ": " << outcome.err;
    EXPECT_EQ(last_line(outcome.out), expected_) << run.name;
  }

  const std::string expected_ = expected("20");
  std::list<Case> cases_;
};

// A control group made for a test; skipped where none can be made.
class Cgroup {
 public:
  explicit Cgroup(const std::string& hierarchy)
      : path_("/sys/fs/cgroup/" + hierarchy + "/lockstep-test-" + std::to_string(::getpid())) {
    made_ = ::mkdir(path_.c_str(), 0755) == 0;
  }
  ~Cgroup() {
    for (int tries = 0; made_ && ::rmdir(path_.c_str()) != 0 && tries < 100; ++tries)
      std::this_thread::sleep_for(20ms);
  }
  bool write(const std::string& file, const std::string& text) const {
    std::ofstream out(path_ + "/" + file);
    out << text << std::flush;
    return made_ && out.good();
  }

 private:
  std::string path_;
  bool made_ = false;
};

// A step of 40 s in one worker, and in all of them, at the default. It is told.
TEST_F(Hangs, AHealthySlowStepIsLeftAlone) {
  for (const std::string how : {"asleep", "computing"})
    for (const std::string n : {"1", "2", "3"}) {
      if (how == "computing" && n == "3") continue;  // two cores: each would take longer
      start(how + n, {"--nproc-per-node", n}, {"--slow", "0:10:40", "--how", how});
    }
  start("all", {"--nproc-per-node", "3"}, {"--slow", "-2:10:40", "--how", "asleep"});
  const std::string fifo = folder_ / "pipe";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  Words unread{"/bin/sh", "-c", "exec \"$@\" >" + fifo, "sh"};
  for (const std::string& word :
       command({"--nproc-per-node", "3"}, {"--txns", "20", "--print", "6000"}, "fifo"))
    unread.push_back(word);
  Case& blocked = cases_.emplace_back("fifo", unread);
  std::ifstream reader(fifo);  // and it reads nothing for as long as the others take
  for (Case& run : cases_) {
    if (&run == &blocked) continue;
    expect_unharmed(run);
    if (run.name.starts_with("computing")) continue;  // it may have had less than 30 s of a CPU
    const bool all = run.name == "all" || run.name == "asleep1";
    const double seconds = number_behind(run.launcher.err(), " has got no further for ");
    EXPECT_GE(seconds, 30) << run.launcher.err();
    EXPECT_LT(seconds, 60) << run.launcher.err();
    EXPECT_THAT(run.launcher.err(),
                HasSubstr(" of epoch 0, step 10, phase backward: it is asleep; " +
                          std::string(all ? "nobody waits" : "others wait") +
                          " for it; it is left alone until others have waited "
                          "for 10 min"));
  }
  const std::string all{std::istreambuf_iterator<char>(reader), {}};
  EXPECT_EQ(last_line(all), expected_);
  const Outcome outcome = blocked.launcher.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(incidents("fifo"), 0) << blocked.launcher.err();
}

// --hang-timeout 2.
TEST_F(Hangs, AStrictLimitIsKept) {
  for (const std::string how : {"asleep", "computing"})
    start(how, {"--nproc-per-node", "3", "--hang-timeout", "2"},
          {"--slow", "1:10:1000", "--how", how});
  start("alone", {"--nproc-per-node", "1", "--hang-timeout", "2", "--max-restarts", "1"},
        {"--slow", "0:10:1000", "--how", "asleep", "--checkpoint-every", "5"});
  for (Case& run : cases_) expect_eviction(run);
}

TEST_F(Hangs, WhatTheSystemDoesToAWorkerIsNotHeldAgainstIt) {
  const Words strict{"--nproc-per-node", "3", "--hang-timeout", "2", "--stop-grace", "60"};
  const Words slow{"--slow", "1:10:1", "--how", "asleep"};
  const Cgroup v1("freezer"), v2("unified");

  // Each at once as it stands still, for a second, by itself.
  const pid_t by_signal = of(start("stopped", strict, slow));
  ::kill(by_signal, SIGSTOP);
  const pid_t by_debugger = of(start("traced", strict, slow));
  ASSERT_EQ(::ptrace(PTRACE_SEIZE, by_debugger, nullptr, nullptr), 0) << std::strerror(errno);
  ::ptrace(PTRACE_INTERRUPT, by_debugger, nullptr, nullptr);
  const pid_t frozen1 = of(start("frozen-v1", strict, slow));
  const bool freezes1 =
      v1.write("cgroup.procs", std::to_string(frozen1)) && v1.write("freezer.state", "FROZEN");
  const pid_t frozen2 = of(start("frozen-v2", strict, slow));
  const bool freezes2 =
      v2.write("cgroup.procs", std::to_string(frozen2)) && v2.write("cgroup.freeze", "1");
  std::this_thread::sleep_for(7s);
  ::kill(by_signal, SIGCONT);
  ::waitpid(by_debugger, nullptr, __WALL);
  ::ptrace(PTRACE_DETACH, by_debugger, nullptr, nullptr);
  v1.write("freezer.state", "THAWED");
  v2.write("cgroup.freeze", "0");
  for (Case& run : cases_) expect_unharmed(run);
  if (!freezes1 && !freezes2)
    GTEST_SKIP() << "no control group can be made here: nothing was frozen";
}

// A twentieth of a CPU for a worker that computes for a second of its own.
TEST_F(Hangs, WhoGetsNoCpuIsNotHung) {
  const Cgroup quota("cpu");
  if (!quota.write("cpu.cfs_period_us", "100000") || !quota.write("cpu.cfs_quota_us", "5000"))
    GTEST_SKIP() << "no control group with a CPU quota can be made here";
  Case& run = start("starved", {"--nproc-per-node", "2", "--hang-timeout", "2"},
                    {"--slow", "1:10:6", "--how", "computing"});
  EXPECT_TRUE(quota.write("cgroup.procs", std::to_string(of(run))));
  expect_unharmed(run);
}

}  // namespace
}  // namespace lockstep::test

// Signals that ask for an end, to real processes: a run loses nothing by one, whoever gets it; a
// program without transactions gets it once, as what it was.
#include <gmock/gmock.h>
#include <signal.h>

#include <memory>

#include "fault/launcher_support.h"
#include "support/until.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

class SignalsTest : public ToyRun {
 protected:
  // About 2 s by three workers.
  Words toy(const std::string& name, Words options = {}, const std::string& step = "500") const {
    options.insert(options.begin(), {"--nproc-per-node", "3"});
    return command(options, {"--txns", kSteps, "--step-us", step, "--checkpoint-every", "1000000"},
                   name);
  }
  // The workers, which lead sessions and run the toy; the zygote does so, too.
  std::vector<pid_t> workers(const Child& launcher) const {
    const std::string id = std::to_string(launcher.pid());
    std::istringstream children(read_text("/proc/" + id + "/task/" + id + "/children"));
    std::vector<pid_t> pids;
    for (pid_t pid = 0; children >> pid;) pids.push_back(pid);
    if (!pids.empty()) zygote_ = pids.front(), pids.erase(pids.begin());
    return pids;
  }
  std::string state_saved(const std::string& name) const {
    return read_text(run_dir(name) + "/toy.checkpoint");
  }
  // The same command again ends as if nothing had been.
  void expect_to_go_on(const std::string& name, const std::string& out_before) const {
    const Outcome again = run(toy(name, {}, "0"));
    EXPECT_EQ(again.code, 0) << again.err;
    EXPECT_EQ(last_line(again.out), expected(kSteps));
    std::vector<int> steps = steps_in(out_before);
    for (const int step : steps_in(again.out)) steps.push_back(step);
    EXPECT_EQ(steps, count_to(std::stoi(kSteps))) << "each step once: the last one was saved";
  }

  const std::string kSteps = "3000";
  mutable pid_t zygote_ = -1;
};

enum class Whom { kLauncher, kAll, kWorkersFirst, kWorkers, kGroup };

TEST_F(SignalsTest, ToTheLauncherOrToAllProcessesStopTheRunWithTheStepUnderWay) {
  int number = 0;
  for (const auto& [whom, signal] : {std::pair{Whom::kAll, SIGTERM},
                                     {Whom::kWorkersFirst, SIGTERM},
                                     {Whom::kWorkers, SIGINT},
                                     {Whom::kGroup, SIGHUP},
                                     {Whom::kAll, SIGUSR1},
                                     {Whom::kWorkers, SIGQUIT}}) {
    const std::string name = "run-" + std::to_string(number++);
    Child launcher(toy(name, {"--signals-to-handle", "SIGUSR1,SIGQUIT"}));
    ASSERT_TRUE(launcher.wait_for_output("step 20\n"));
    std::vector<pid_t> pids = workers(launcher);
    ASSERT_EQ(pids.size(), 3U);
    pids.push_back(zygote_);
    if (whom == Whom::kAll) launcher.send(signal);
    if (whom == Whom::kGroup) ::kill(-launcher.pid(), signal);
    if (whom != Whom::kGroup)
      for (const pid_t pid : pids) ::kill(pid, signal);
    if (whom == Whom::kWorkersFirst) launcher.send(signal);
    if (whom == Whom::kGroup) launcher.send(signal);
    const Outcome outcome = launcher.wait();
    EXPECT_EQ(outcome.code, 128 + signal) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(whom == Whom::kWorkers ? "to all workers;" : "stopped by"));
    EXPECT_EQ(incidents(name), 0) << outcome.err;
    expect_to_go_on(name, outcome.out);
  }
}

TEST_F(SignalsTest, ToOneWorkerAreADeathFromOutsideThatLosesNothing) {
  Child launcher(toy("run"));
  ASSERT_TRUE(launcher.wait_for_output("step 20\n"));
  const std::vector<pid_t> pids = workers(launcher);
  ASSERT_EQ(pids.size(), 3U);
  ::kill(pids[1], SIGTERM);
  const Outcome outcome = launcher.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("got SIGTERM and leaves at the next step; a replacement is "
                                     "started (9 of 10 left)"));
  EXPECT_EQ(last_line(outcome.out), expected(kSteps));
  EXPECT_EQ(steps_in(outcome.out), count_to(std::stoi(kSteps)));
  EXPECT_EQ(incidents(), 1);
}

TEST_F(SignalsTest, ToTheOnlyWorkerStopTheRun) {
  for (const std::string method : {"fork", "exec"}) {
    const std::string name = "run-" + method;
    const Words words =
        command({"--start-method", method},
                {"--txns", "100000", "--step-us", "500", "--checkpoint-every", "1000000"}, name);
    Child launcher(words);
    ASSERT_TRUE(launcher.wait_for_output("step 5\n"));
    std::vector<pid_t> pids = workers(launcher);
    if (method == "exec") pids = {zygote_};
    ASSERT_EQ(pids.size(), 1U);
    ::kill(pids[0], SIGTERM);
    const Outcome outcome = launcher.wait();
    EXPECT_EQ(outcome.code, 143) << outcome.err;
    EXPECT_EQ(std::stoi(state_saved(name)), static_cast<int>(steps_in(outcome.out).size()));
  }
}

// The zygote, and whoever loads its state, have nothing to do with it.
TEST_F(SignalsTest, BeforeTheFirstStepOnlyTheLaunchersCounts) {
  Child launcher(command({"--nproc-per-node", "2"}, {"--txns", "50", "--load-ms", "2000"}));
  ASSERT_TRUE(until([&] { return workers(launcher).size() == 2; }));
  std::this_thread::sleep_for(200ms);
  for (const pid_t pid : workers(launcher)) ::kill(pid, SIGTERM);
  ASSERT_GT(zygote_, 1);
  ::kill(zygote_, SIGTERM);
  const Outcome outcome = launcher.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(last_line(outcome.out), expected("50"));
  EXPECT_EQ(incidents(), 0);
}

// What it has forked is no worker: it shall not speak for one on the board.
TEST_F(SignalsTest, AWorkersChildDiesOfThem) {
  Hold hold(run_dir(), 25, 60s);
  Child launcher(command({}, {"--txns", "60", "--step-us", "500", "--forks-sleeper"}));
  ASSERT_TRUE(launcher.wait_for_output("step 20\n"));
  const std::string worker = std::to_string(workers(launcher).at(0));
  const std::string child = read_text("/proc/" + worker + "/task/" + worker + "/children");
  const pid_t pid = std::atoi(child.c_str());
  ASSERT_GT(pid, 1);
  ::kill(pid, SIGTERM);
  EXPECT_TRUE(
      until([&] { return read_text("/proc/" + std::to_string(pid) + "/cmdline").empty(); }));
  hold.release();
  const Outcome outcome = launcher.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("SIGTERM")));
}

// An INT that comes twice within a moment is timeout(1), not a person.
TEST_F(SignalsTest, TimeoutOfTheShellStopsInOrder) {
  Words words{"timeout", "-s", "INT", "0.7"};
  for (const std::string& word : toy("run")) words.push_back(word);
  const Outcome outcome = run(words);
  EXPECT_EQ(outcome.code, 124) << outcome.err;
  EXPECT_THAT(outcome.err, Not(HasSubstr("at once")));
  expect_to_go_on("run", outcome.out);
}

// Programs that know nothing of Lockstep.
class Scripts : public SignalsTest {
 protected:
  // Writes which signals have come, one a line, and ends with the first but a little later.
  Words recorder(const Words& options) const {
    const std::string text =
        "#!/bin/bash\n"
        "got() { echo $1 >>" +
        folder_.path() +
        "/got.$RANK; sleep 0.2 & wait; "
        "exit 0; }\n"
        "for s in TERM INT HUP QUIT USR1 USR2; do trap \"got $s\" $s; done\n"
        "echo up\n"
        "while :; do sleep 0.05 & wait; done\n";
    Words all{"--nproc-per-node", "2"};
    all.insert(all.end(), options.begin(), options.end());
    return command_of(all, {script("record.sh", text)});
  }
  std::string got(int rank) const { return read_text(folder_ / ("got." + std::to_string(rank))); }
};

TEST_F(Scripts, GetEachSignalOnceAsWhatItWas) {
  for (const auto& [signal, name] : {std::pair{SIGTERM, "TERM\n"},
                                     {SIGINT, "INT\n"},
                                     {SIGHUP, "HUP\n"},
                                     {SIGQUIT, "QUIT\n"},
                                     {SIGUSR1, "USR1\n"},
                                     {SIGUSR2, "USR2\n"}}) {
    Child launcher(recorder({"--signals-to-handle", "usr1,12"}));
    ASSERT_TRUE(launcher.wait_for_output("up\nup\n"));
    launcher.send(signal);
    EXPECT_EQ(launcher.wait().code, 128 + signal);
    for (const int rank : {0, 1}) {
      EXPECT_EQ(got(rank), name) << rank;
      std::filesystem::remove(folder_ / ("got." + std::to_string(rank)));
    }
  }
}

TEST_F(Scripts, ADeathByOneWaitsForTheLaunchersOwn) {
  const Words words{LOCKSTEP_PROGRAM,
                    "run",
                    "--nproc-per-node",
                    "2",
                    "--max-restarts",
                    "3",
                    "/bin/sh",
                    "-c",
                    "echo up $TORCHELASTIC_RESTART_COUNT; exec sleep 65.5"};
  for (const bool launcher_too : {true, false}) {
    Child launcher(words);
    ASSERT_TRUE(launcher.wait_for_output("up 0\nup 0\n"));
    for (const pid_t pid : workers(launcher)) ::kill(pid, SIGTERM);
    ASSERT_GT(zygote_, 1);
    ::kill(zygote_, SIGTERM);  // the first worker: there is no zygote
    if (launcher_too) {
      std::this_thread::sleep_for(300ms);
      launcher.send(SIGTERM);
      const Outcome outcome = launcher.wait();
      EXPECT_EQ(outcome.code, 143) << outcome.err;
      EXPECT_THAT(outcome.err, Not(HasSubstr("starts again")));
      EXPECT_THAT(outcome.err, Not(HasSubstr("FAILED")));
    } else {
      EXPECT_TRUE(launcher.wait_for_output("up 1\nup 1\n"));
      launcher.send(SIGINT);
      EXPECT_EQ(launcher.wait().code, 130);
    }
  }
}

// Whoever started the launcher may ignore or block what it likes; nohup's HUP stays its wish.
TEST_F(Scripts, WhatTheParentIgnoredOrBlockedIsReset) {
  const auto start = [](const Words& words) {
    constexpr int kNumbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGQUIT, SIGHUP};
    sigset_t all, before;
    sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, &before);
    for (const int number : kNumbers) ::signal(number, SIG_IGN);
    auto child = std::make_unique<Child>(words);
    for (const int number : kNumbers) ::signal(number, SIG_DFL);
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    return child;
  };
  EXPECT_EQ(start({LOCKSTEP_PROGRAM, "run", "--nproc-per-node", "2", "/bin/true"})->wait(10s).code,
            0);
  EXPECT_EQ(start(command({"--nproc-per-node", "2"}, {"--txns", "20"}))->wait(20s).code, 0);
  const auto launcher = start(recorder({}));
  EXPECT_TRUE(launcher->wait_for_output("up\nup\n"));
  launcher->send(SIGHUP);
  std::this_thread::sleep_for(100ms);
  launcher->send(SIGINT);
  EXPECT_EQ(launcher->wait().code, 130);
  for (const int rank : {0, 1}) EXPECT_EQ(got(rank), "INT\n");
}

TEST_F(Scripts, SignalsThatAreNotNamedDoWhatTheyDo) {
  Child launcher(recorder({}));
  ASSERT_TRUE(launcher.wait_for_output("up\nup\n"));
  launcher.send(SIGUSR1);
  EXPECT_EQ(launcher.wait().code, -SIGUSR1);
  EXPECT_TRUE(until([&] { return processes_with(folder_.path()).empty(); }));
}

}  // namespace
}  // namespace lockstep::test

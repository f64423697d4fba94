// The launcher in trouble of its own: no descriptors left, nobody who reads its output, a program
// that does odd things, a launcher that is stopped.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>

#include "fault/launcher_support.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

class Troubles : public ToyRun {
 protected:
  Outcome status(const std::string& name = "run") const {
    return run({LOCKSTEP_PROGRAM, "status", run_dir(name), "--json"});
  }
  std::vector<pid_t> members() const {
    const std::string text = status().out, key = "\"pid\":";
    std::vector<pid_t> pids;
    for (std::size_t at = text.find("\"members\""); (at = text.find(key, at)) != std::string::npos;)
      pids.push_back(std::atoi(text.c_str() + (at += key.size())));
    return pids;
  }
  static std::vector<pid_t> children(pid_t parent) {
    const std::string task = "/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent);
    std::istringstream text(read_text(task + "/children"));
    return {std::istream_iterator<pid_t>(text), {}};
  }
  template <class Condition>
  static bool until(Condition condition, std::chrono::milliseconds limit = 10s) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(5ms);
    }
    return true;
  }
};

const std::vector<std::string> kEndless{"--txns", "100000000", "--step-us", "500"};

TEST_F(Troubles, NoDescriptorLeftCostsTheReplacementOnly) {
  // So slow that no replacement is given back meanwhile.
  Child launcher(command({"--nproc-per-node", "3", "--max-replacements", "3"},
                         {"--txns", "100000", "--step-us", "20000"}));
  ASSERT_TRUE(launcher.wait_for_output("step 5\n"));
  const std::vector<pid_t> pids = members();
  ASSERT_EQ(pids.size(), 3U);
  rlimit before{};
  ASSERT_EQ(::prlimit(launcher.pid(), RLIMIT_NOFILE, nullptr, &before), 0);
  const rlimit none{4, before.rlim_max};  // those that are open stay open
  ASSERT_EQ(::prlimit(launcher.pid(), RLIMIT_NOFILE, &none, nullptr), 0);
  ::kill(pids[1], SIGKILL);
  EXPECT_TRUE(until([&] { return launcher.err().find("is spent") != std::string::npos; }))
      << launcher.err();
  ASSERT_EQ(::prlimit(launcher.pid(), RLIMIT_NOFILE, &before, nullptr), 0);
  launcher.send(SIGTERM);
  const Outcome outcome = launcher.wait();
  EXPECT_EQ(outcome.code, 143) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("Too many open files"));
}

// A pipe that takes nothing.
class FullPipe {
 public:
  FullPipe() {
    EXPECT_EQ(::pipe2(ends_, O_CLOEXEC | O_NONBLOCK), 0);
    ::fcntl(ends_[1], F_SETPIPE_SZ, 4096);
    while (::write(ends_[1], "x", 1) == 1) {
    }
    ::fcntl(ends_[1], F_SETFL, 0);
  }
  ~FullPipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  FullPipe(const FullPipe&) = delete;
  FullPipe& operator=(const FullPipe&) = delete;
  // Until the writers are gone.
  std::string read_all() {
    ::close(std::exchange(ends_[1], -1));
    ::fcntl(ends_[0], F_SETFL, 0);
    std::string text(1 << 20, '\0');
    std::size_t size = 0;
    for (ssize_t n; (n = ::read(ends_[0], text.data() + size, text.size() - size)) > 0;)
      size += static_cast<std::size_t>(n);
    return text.substr(0, size);
  }
  std::string path() const {
    return "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(ends_[1]);
  }

 private:
  int ends_[2];
};

TEST_F(Troubles, AStandardErrorThatNobodyReadsStopsNothing) {
  FullPipe pipe;
  std::string line = "exec";
  for (const std::string& word : command({"--nproc-per-node", "3"}, kEndless)) line += " " + word;
  Child launcher({"sh", "-c", line + " 2>" + pipe.path()});
  ASSERT_TRUE(launcher.wait_for_output("step 5\n"));
  const std::vector<pid_t> pids = members();
  ASSERT_EQ(pids.size(), 3U);
  ::kill(pids[1], SIGKILL);
  EXPECT_TRUE(until([&] { return members().size() == 3 && members()[1] != pids[1]; }));
  launcher.send(SIGTERM);
  EXPECT_THAT(pipe.read_all(), HasSubstr("died (SIGKILL)"));  // once there is room
  EXPECT_EQ(launcher.wait(10s).code, 143);
}

TEST_F(Troubles, AWorkerThatBecomesAnotherProgramIsMadeUpFor) {
  const Outcome outcome =
      finish({"--nproc-per-node", "3"}, {"--txns", "12", "--become-sleep", "1:5"});
  EXPECT_EQ(last_line(outcome.out), expected("12"));
  EXPECT_THAT(outcome.err, HasSubstr("closed its connection to the launcher"));
  EXPECT_LT(outcome.seconds, 20);
}

TEST_F(Troubles, NewcomersWhoseDataAreGoneCostNobodyElse) {
  const Outcome outcome =
      finish_held(6, "cannot take part: the data of the toy are gone",
                  {"--nproc-per-node", "3", "--inject", "kill rank=1 txn=5 phase=backward"},
                  {"--txns", "40", "--step-us", "500", "--newcomers-fail"});
  EXPECT_EQ(last_line(outcome.out), expected("40"));
}

TEST_F(Troubles, AProgramThatIsAlwaysKilledBeforeItsForkPointIsResumable) {
  const Outcome outcome =
      run(command({"--nproc-per-node", "2", "--max-restarts", "1"}, {"--startup-kill"}));
  EXPECT_EQ(outcome.code, 75);
  EXPECT_THAT(outcome.err, HasSubstr("ended with SIGKILL before lockstep::init()"));
}

TEST_F(Troubles, AProgramThatAdoptsOrphansRunsAsAnyOther) {
  const Outcome outcome = finish({"--nproc-per-node", "3"}, {"--txns", "12", "--subreaper"});
  EXPECT_EQ(last_line(outcome.out), expected("12"));
}

TEST_F(Troubles, AStoppedLauncherIsNamedAfterADeadline) {
  Child launcher(command({"--nproc-per-node", "2"}, kEndless));
  ASSERT_TRUE(launcher.wait_for_output("step 5\n"));
  launcher.send(SIGSTOP);
  std::vector<std::unique_ptr<Child>> askers;
  askers.push_back(std::make_unique<Child>(Words{LOCKSTEP_PROGRAM, "scale", run_dir(), "1"}));
  for (int i = 0; i < 12; ++i)  // more than may wait to be accepted
    askers.push_back(std::make_unique<Child>(Words{LOCKSTEP_PROGRAM, "status", run_dir()}));
  for (const auto& asker : askers) {
    const Outcome outcome = asker->wait(60s);
    EXPECT_EQ(outcome.code, 69);
    EXPECT_THAT(outcome.err, HasSubstr("does not answer within 10 s; is it stopped?"));
  }
  launcher.send(SIGCONT);
  // Whose asker was told that it failed does not happen later.
  const Outcome status = run({LOCKSTEP_PROGRAM, "status", run_dir(), "--json"});
  EXPECT_THAT(status.out, HasSubstr("\"world_size\":2")) << status.err;
  EXPECT_THAT(launcher.err(), testing::Not(HasSubstr("shrunk")));
  launcher.send(SIGTERM);
  EXPECT_EQ(launcher.wait(10s).code, 143);
}

TEST_F(Troubles, WhatKeepsTheProgramFromStartingIsTheOnlyError) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizers' own checks open pipes, and there is no descriptor for them";
#endif
  const std::string line = std::string("ulimit -n 9; exec ") + LOCKSTEP_PROGRAM + " run " +
                           TOY_WORKER + " --run-dir " + run_dir();
  const Outcome outcome = run({"sh", "-c", line});
  EXPECT_EQ(outcome.code, 69);
  EXPECT_THAT(outcome.err, HasSubstr("Too many open files"));
  EXPECT_THAT(outcome.err, Not(HasSubstr("before lockstep::init()")));
  EXPECT_EQ(outcome.err.find("error: "), outcome.err.rfind("error: ")) << outcome.err;
}

TEST_F(Troubles, AnEndBeforeTheForkPointIsToldEvenIfItIsAGoodOne) {
  const Outcome outcome = run(command({"--nproc-per-node", "2"}, {"--startup-exit", "0"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err,
              HasSubstr("warning: the program ended with exit 0 before lockstep::init()"));
}

}  // namespace
}  // namespace lockstep::test

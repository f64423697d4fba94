// Programs that start their own workers (spawn_worker.cpp): the same weights, and an end with all
// that they have started, whoever is killed.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "coord/version.h"
#include "support/child.h"
#include "support/held_steps.h"
#include "support/output.h"
#include "support/until.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;

pid_t parent_of(pid_t pid) {
  std::istringstream line(read_text("/proc/" + std::to_string(pid) + "/stat"));
  std::string word;
  for (int i = 0; i < 4; ++i) line >> word;  // the name has no space in it
  return word.empty() ? 0 : static_cast<pid_t>(std::stol(word));
}

class Spawn : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  Words command(const std::string& n, const std::string& name, const Words& options = {}) const {
    Words words{SPAWN_WORKER, n, name, run_dir()};
    words.insert(words.end(), options.begin(), options.end());
    return words;
  }
  std::string run_dir() const { return folder_ / run_; }
  Outcome spawned(const std::string& n, const std::string& name, const Words& options = {}) const {
    return run(command(n, name, options));
  }
  void expect_error(const Outcome& outcome, int code, const Words& words) const {
    EXPECT_EQ(outcome.code, code) << outcome.err;
    for (const std::string& word : words)
      EXPECT_NE(outcome.err.find(word), std::string::npos) << word << "\n" << outcome.err;
  }
  // Of the undisturbed run, by one worker without a launcher.
  std::string expected() const {
    const Outcome alone = run({SPAWN_WORKER, "init", "train", folder_ / "alone"});
    EXPECT_EQ(alone.code, 0) << alone.err;
    return hash_in(alone);
  }
  // The processes of the run but the caller.
  Words::size_type others(pid_t caller) const {
    const auto found = processes_with(run_dir());
    return found.size() - static_cast<std::size_t>(std::ranges::count(found, caller));
  }
  pid_t launcher_of(pid_t caller) const {
    for (const pid_t pid : processes_with(run_dir()))
      if (parent_of(pid) == caller) return pid;
    return -1;
  }
  std::vector<pid_t> children_of(pid_t parent) const {
    std::vector<pid_t> found = processes_with(run_dir());
    std::erase_if(found, [&](pid_t pid) { return parent_of(pid) != parent; });
    return found;
  }
  // Of the launcher's children those that are members of the run, or the others: the zygotes.
  std::vector<pid_t> children(pid_t caller, bool members) const {
    std::vector<pid_t> found = children_of(launcher_of(caller));
    const Outcome status = run({LOCKSTEP_PROGRAM, "status", run_dir(), "--json"});
    EXPECT_EQ(status.code, 0) << status.err;
    std::erase_if(found, [&](pid_t pid) {
      const std::string entry = "\"pid\":" + std::to_string(pid) + ",";
      return (status.out.find(entry) != std::string::npos) != members;
    });
    return found;
  }
  // `members` of them in all have begun, three live, and so do a zygote and its spare.
  bool is_complete(const Child& caller, int members) const {
    return until([&] {
      return count(caller.out(), "inherits 42") == members &&
             children(caller.pid(), true).size() == 3 && children(caller.pid(), false).size() == 2;
    });
  }
  bool is_clean() const {
    std::error_code error;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(run_dir(), error))
      if (entry.path().filename().string().starts_with(".tmp-")) return false;
    return processes_with(run_dir()).empty();
  }
  void TearDown() override {
    EXPECT_TRUE(processes_with(folder_.path()).empty()) << "a process is left behind";
  }
  TempFolder folder_;
  std::string run_ = "run";
};

TEST_F(Spawn, WeightsAreThoseOfTheLauncherAndOfOneProcess) {
  const Outcome three = spawned("3", "train");
  EXPECT_EQ(three.code, 0) << three.err;
  EXPECT_EQ(hash_in(three), expected());
  EXPECT_EQ(count(three.out, "before, once\n"), 1) << three.out;
  for (const char* rank : {"rank 0", "rank 1", "rank 2"})
    EXPECT_EQ(count(three.out, std::string(rank) + " of 3 inherits 42, 1 threads\n"), 1);
  EXPECT_TRUE(is_clean());
  const Outcome launched = run({LOCKSTEP_PROGRAM, "run", "--standalone", "--nproc-per-node", "3",
                                SPAWN_WORKER, "init", "train", folder_ / "launched"});
  EXPECT_EQ(hash_in(launched), expected());
}

TEST_F(Spawn, KilledWorkersAreReplacedAndChangeNothing) {
  Hold hold(run_dir(), 11);
  Child caller(
      command("3", "train",
              {"--inject", "kill rank=1 txn=10 phase=backward; kill rank=0 txn=20 phase=exchange",
               "--inject", "kill rank=2 txn=40 phase=forward"}));
  int joined = 0;
  for (const int behind_next : {21, 41, 60}) {
    ++joined;
    EXPECT_TRUE(until([&] { return count(caller.err(), "replacement joined") >= joined; }))
        << caller.err();
    hold.from(behind_next);
  }
  const Outcome outcome = caller.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count(outcome.err, "a replacement is started"), 3) << outcome.err;
  EXPECT_EQ(hash_in(outcome), expected());
  // Forked anew from the caller as it was at the call.
  EXPECT_EQ(count(outcome.out, "inherits 42"), 6) << outcome.out;
  EXPECT_TRUE(is_clean());
}

TEST_F(Spawn, AllKilledStartAgain) {
  const Outcome outcome =
      spawned("2", "train", {"--max-restarts=1", "--inject", "kill txn=33; kill txn=33"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(killed_in(outcome), 2) << outcome.err;
  EXPECT_EQ(hash_in(outcome), expected());
}

// The spare takes its place, and gets one of its own.
TEST_F(Spawn, AKilledZygoteCostsNothing) {
  Child caller(command("3", "held"));
  ASSERT_TRUE(caller.wait_for_output("Epoch [3/20]"));
  for (const std::size_t zygote : {0, 1}) {
    ASSERT_TRUE(is_complete(caller, 3 + static_cast<int>(zygote))) << caller.err();
    const pid_t worker = children(caller.pid(), true).at(1);
    ::kill(children(caller.pid(), false).at(zygote), SIGKILL);
    ::kill(worker, SIGKILL);
  }
  EXPECT_TRUE(is_complete(caller, 5)) << caller.err();
  folder_.write("run-go", "");
  const Outcome outcome = caller.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count(outcome.err, "a replacement is started"), 2) << outcome.err;
  EXPECT_EQ(count(outcome.out, "inherits 42"), 5) << outcome.out;
  EXPECT_EQ(hash_in(outcome), expected());
}

TEST_F(Spawn, WithoutAnyZygoteTheSurvivorsGoOn) {
  Child caller(command("3", "held"));
  ASSERT_TRUE(caller.wait_for_output("Epoch [3/20]"));
  ASSERT_TRUE(is_complete(caller, 3)) << caller.err();
  const auto workers = children(caller.pid(), true);
  // Between two kills the spare may have been asked for a spare of its own.
  EXPECT_TRUE(until([&] {
    const auto zygotes = children(caller.pid(), false);
    for (const pid_t zygote : zygotes) ::kill(zygote, SIGKILL);
    return zygotes.empty();
  }));
  ::kill(workers.at(1), SIGKILL);
  EXPECT_TRUE(until([&] { return count(caller.err(), "no more workers are started") == 1; }));
  folder_.write("run-go", "");
  const Outcome outcome = caller.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(hash_in(outcome), expected());
}

TEST_F(Spawn, TheCallersDeathEndsTheRun) {
  Child caller(command("3", "slow"));
  ASSERT_TRUE(caller.wait_for_output("Epoch [4/20]"));
  EXPECT_GE(others(caller.pid()), 5U) << "launcher, zygote, three workers";
  caller.send(SIGKILL);
  EXPECT_EQ(caller.wait().code, -SIGKILL);
  EXPECT_TRUE(until([&] { return is_clean(); }));
  const Outcome again = spawned("2", "train");
  EXPECT_NE(again.err.find("resuming from"), std::string::npos) << again.err;
  EXPECT_EQ(hash_in(again), expected());
}

TEST_F(Spawn, TheCallersDeathAtTheStartEndsTheRunToo) {
  for (const auto wait : {0ms, 2ms, 20ms, 60ms, 120ms, 200ms}) {
    Child caller(command("3", "slow"));
    std::this_thread::sleep_for(wait);
    caller.send(SIGKILL);
    caller.wait();
    EXPECT_TRUE(until([&] { return is_clean(); })) << wait.count();
  }
}

TEST_F(Spawn, TheLaunchersDeathEndsTheRunAndIsTold) {
  Child caller(command("3", "slow"));
  ASSERT_TRUE(caller.wait_for_output("Epoch [4/20]"));
  const pid_t launcher = launcher_of(caller.pid());
  ASSERT_GT(launcher, 1);
  ::kill(launcher, SIGKILL);
  const Outcome outcome = caller.wait();
  expect_error(outcome, 75, {"was ended by signal 9"});
  EXPECT_NE(outcome.out.find("spawn() has returned"), std::string::npos);
  EXPECT_TRUE(processes_with(run_dir()).empty()) << "they end before spawn() returns";
  EXPECT_EQ(hash_in(spawned("3", "train")), expected());
  EXPECT_TRUE(is_clean());
}

TEST_F(Spawn, SignalsEndTheRunInOrderAndThenTheCaller) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) {
    run_ = "run-" + std::to_string(number);
    // A session of its own; as with Ctrl-C, all of the caller's process group gets the signal.
    Words words{"setsid"};
    for (const std::string& word : command("3", "slow")) words.push_back(word);
    Child caller(words);
    ASSERT_TRUE(caller.wait_for_output("Epoch [4/20]"));
    ::kill(-caller.pid(), number);
    const Outcome outcome = caller.wait();
    EXPECT_EQ(outcome.code, -number) << outcome.err;
    EXPECT_NE(outcome.err.find("the same command goes on"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("killed"), std::string::npos) << "it came twice: " << outcome.err;
    EXPECT_TRUE(is_clean());
    EXPECT_EQ(hash_in(spawned("3", "train")), expected());
  }
}

// What the workers get themselves, and the processes that they are forked from.
TEST_F(Spawn, ASignalToOneWorkerTakesItOut) {
  Child caller(command("3", "held"));
  ASSERT_TRUE(caller.wait_for_output("Epoch [3/20]"));
  const std::vector<pid_t> members = children(caller.pid(), true);
  std::vector<pid_t> pids = children(caller.pid(), false);
  ASSERT_EQ(members.size(), 3U);
  pids.push_back(members[1]);
  for (const pid_t pid : pids) ::kill(pid, SIGTERM);
  EXPECT_TRUE(
      until([&] { return count(caller.err(), "got SIGTERM and leaves at the next step") == 1; }));
  folder_.write("run-go", "");
  const Outcome outcome = caller.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(hash_in(outcome), expected());
  EXPECT_TRUE(is_clean());
}

TEST_F(Spawn, ASignalAtTheStartEndsAllToo) {
  for (const auto wait : {0ms, 2ms, 20ms, 60ms, 120ms, 200ms}) {
    Child caller(command("3", "slow"));
    std::this_thread::sleep_for(wait);
    caller.send(SIGTERM);
    EXPECT_EQ(caller.wait().code, -SIGTERM) << wait.count();
    EXPECT_TRUE(is_clean()) << wait.count();
  }
}

TEST_F(Spawn, AHandlerOfTheCallersHasTheLastWord) {
  Child caller(command("2", "handler"));
  ASSERT_TRUE(caller.wait_for_output("Epoch [4/20]"));
  caller.send(SIGTERM);
  const Outcome outcome = caller.wait();
  expect_error(outcome, 75, {"was ended by signal 15"});
  EXPECT_NE(outcome.out.find("handled\nspawn() has returned\n"), std::string::npos) << outcome.out;
}

TEST_F(Spawn, TheFirstWorkersErrorAndItsExitCode) {
  const Outcome fails = spawned("3", "fails");
  expect_error(fails, 65, {"rank 1 (worker 2): picture 7 is no picture", "exit code 65"});
  EXPECT_EQ(count(fails.err, "no picture"), 1) << fails.err;
  EXPECT_EQ(count(fails.out, "spawn() has returned"), 1) << "workers must not come back";
  run_ = "throws";
  const Outcome throws = spawned("3", "throws");
  expect_error(throws, 1, {"no such class", "SIGABRT", "exit code 1"});
  EXPECT_EQ(count(throws.out, "spawn() has returned"), 1);
}

TEST_F(Spawn, ASecondThreadIsNamed) {
  const Outcome outcome = spawned("2", "thread");
  expect_error(outcome, 2, {"lockstep::spawn() forks the workers", "'prefetcher' (id "});
  EXPECT_EQ(outcome.err.find("init()"), std::string::npos) << outcome.err;
}

TEST_F(Spawn, ACallInsideARunIsAnErrorThatNamesIt) {
  // Either worker may be the first to fail: rank 0's process is not always the first to run.
  expect_error(spawned("2", "nested"), 2, {"inside the run '", "in rank "});
  expect_error(spawned("2", "init-inside"), 2, {"lockstep::init(): this process has passed"});
  expect_error(spawned("init", "after-init"), 2, {"lockstep::spawn(): this process has passed"});
  Words launched{LOCKSTEP_PROGRAM, "run", "--nproc-per-node", "2"};
  for (const std::string& word : command("2", "train")) launched.push_back(word);
  expect_error(run(launched), 2, {"in a program that 'lockstep run' has started"});
  expect_error(run(command("2", "train"), {{"TORCHELASTIC_RUN_ID", "seventh"}, {"RANK", "3"}}), 2,
               {"inside the run 'seventh', in rank 3"});
}

TEST_F(Spawn, WrongArguments) {
  for (const char* n : {"0", "-1", "129"})
    expect_error(spawned(n, "train"), 2, {"1 to 128 workers are possible"});
  expect_error(spawned("2", "empty"), 2, {"the function is empty"});
  expect_error(spawned("2", "train", {"--max-restart", "3"}), 2, {"--max-restarts", "exit code 2"});
  expect_error(spawned("2", "train", {"--nproc-per-node=3"}), 2, {"lockstep::spawn(2, ...)"});
  expect_error(spawned("2", "train", {"oops"}), 2, {"'oops' is none of the launcher's"});
  expect_error(spawned("2", "train", {"--log-dir"}), 2, {"one has no value"});
  for (const char* option : {"--help", "--start-method=exec"})
    expect_error(spawned("2", "train", {option}), 2, {"make no sense"});
  EXPECT_FALSE(std::filesystem::exists(run_dir()));
  for (const char* value : {"", "3:1:2", "0:1:2", "3:1:2:4"})
    expect_error(run({LOCKSTEP_PROGRAM, "run", "true"}, {{"LOCKSTEP_SPAWNED", value}}), 2,
                 {"lockstep::spawn() alone sets it"});
}

TEST_F(Spawn, MayBeCalledAgainAndInitAfterIt) {
  const Outcome twice = spawned("2", "twice");
  EXPECT_EQ(twice.code, 0) << twice.err;
  EXPECT_EQ(count(twice.out, expected()), 2) << twice.out;
  EXPECT_EQ(count(twice.out, "inherits 43"), 2) << twice.out;
  run_ = "then-alone";
  const Outcome after = spawned("2", "init-after");
  EXPECT_EQ(after.code, 0) << after.err;
  EXPECT_NE(after.out.find("launched: 0"), std::string::npos) << after.out;
}

TEST_F(Spawn, ACallerThatIgnoresItsChildrenLearnsTheEnd) {
  const Outcome outcome = spawned("2", "children-ignored");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(hash_in(outcome), expected());
}

class SpawnLauncher : public Spawn {
 protected:
  // The program where no launcher is near.
  Outcome elsewhere(const Child::Variables& variables) const {
    const std::string program = folder_ / "far/from/all/spawn_worker";
    std::filesystem::create_directories(folder_ / "far/from/all");
    std::filesystem::copy_file(SPAWN_WORKER, program,
                               std::filesystem::copy_options::overwrite_existing);
    return run({program, "2", "train", run_dir()}, variables);
  }
  std::string of_another_version() const {
    std::string text = read_text(LOCKSTEP_PROGRAM);
    coord::Note note = coord::kLauncherNote;
    const auto at = text.find(std::string(reinterpret_cast<const char*>(&note), sizeof note));
    EXPECT_NE(at, std::string::npos);
    note.version = coord::kProtocolVersion + 7;
    text.replace(at, sizeof note, reinterpret_cast<const char*>(&note), sizeof note);
    std::string other = folder_ / "lockstep";
    std::ofstream(other) << text;
    std::filesystem::permissions(other, std::filesystem::perms::owner_all);
    return other;
  }
};

TEST_F(SpawnLauncher, WhereThereIsNoneAllPlacesAreTold) {
  expect_error(elsewhere({{"PATH", "/nowhere"}}), 2,
               {"needs the program 'lockstep'", folder_ / "far/from/all/lockstep",
                folder_ / "far/bin/lockstep", "nor in PATH", "LOCKSTEP_LAUNCHER"});
}

TEST_F(SpawnLauncher, IsFoundInPathOrByTheVariable) {
  const std::string bin = std::filesystem::path(LOCKSTEP_PROGRAM).parent_path();
  EXPECT_EQ(elsewhere({{"PATH", "/nowhere:" + bin}}).code, 0);
  run_ = "by-variable";
  EXPECT_EQ(elsewhere({{"PATH", "/nowhere"}, {"LOCKSTEP_LAUNCHER", LOCKSTEP_PROGRAM}}).code, 0);
}

TEST_F(SpawnLauncher, IsFoundInTheBinOfABuildFolder) {
  int number = 0;
  for (const char* bin :
       {"far/from/all", "far/from/all/bin", "far/from/bin", "far/bin", "bin", "far/from/bin/all"}) {
    SCOPED_TRACE(bin);
    const std::filesystem::path launcher = folder_ / (std::string(bin) + "/lockstep");
    std::filesystem::create_directories(launcher.parent_path());
    std::filesystem::create_symlink(LOCKSTEP_PROGRAM, launcher);
    run_ = "bin-" + std::to_string(++number);
    EXPECT_EQ(elsewhere({{"PATH", "/nowhere"}}).code, 0);
    std::filesystem::remove(launcher);
  }
}

TEST_F(SpawnLauncher, WhatIsNoneOrOfAnotherVersionIsRefused) {
  expect_error(elsewhere({{"LOCKSTEP_LAUNCHER", "/nowhere/lockstep"}}), 2,
               {"LOCKSTEP_LAUNCHER='/nowhere/lockstep' is not an executable file"});
  expect_error(elsewhere({{"LOCKSTEP_LAUNCHER", "/bin/sh"}}), 2,
               {"'/bin/sh'", "it is not the program 'lockstep'"});
  expect_error(elsewhere({{"LOCKSTEP_LAUNCHER", of_another_version()}}), 2,
               {"version " + std::to_string(coord::kProtocolVersion) + " ",
                "version " + std::to_string(coord::kProtocolVersion + 7)});
}

}  // namespace
}  // namespace lockstep::test

// The launcher with real processes of the toy worker: whatever is killed, stopped, added or
// removed, the state at the end is the same, and nothing is left behind (ToyRun::TearDown looks).
#include "fault/launcher_support.h"
#include "support/output.h"
#include "support/until.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using Launcher = ToyRun;

TEST_F(Launcher, AnyNumberOfWorkersReachesTheSameState) {
  const std::string state = expected("12");
  for (const std::string workers : {"1", "2", "3", "4"}) {
    const Outcome outcome = finish({"--nproc-per-node", workers}, {"--txns", "12"}, "w" + workers);
    EXPECT_EQ(last_line(outcome.out), state);
    EXPECT_EQ(steps_in(outcome.out), count_to(12));
  }
}

TEST_F(Launcher, StartsByExecToo) {
  const Outcome outcome =
      finish({"--nproc-per-node", "3", "--start-method", "exec"}, {"--txns", "12"});
  EXPECT_EQ(last_line(outcome.out), expected("12"));
}

TEST_F(Launcher, AWorkerKilledAtAnyTransactionIsMadeUpFor) {
  const std::string state = expected("6");
  for (int txn = 0; txn < 6; ++txn)
    for (int rank = 0; rank < 3; ++rank) {
      const std::string name = std::to_string(txn) + "-" + std::to_string(rank);
      const std::string fault =
          "kill rank=" + std::to_string(rank) + " txn=" + std::to_string(txn) + " phase=backward";
      const Outcome outcome = finish({"--nproc-per-node", "3", "--inject", fault},
                                     {"--txns", "6", "--step-us", "500"}, name);
      EXPECT_EQ(last_line(outcome.out), state) << fault;
      EXPECT_EQ(steps_in(outcome.out), count_to(6)) << fault;
      EXPECT_EQ(incidents(name), 1) << fault;
    }
}

TEST_F(Launcher, AWorkerKilledInAnyPhaseIsMadeUpFor) {
  const std::string state = expected("6");
  for (const std::string phase : {"data", "forward", "exchange", "optimizer"}) {
    const Outcome outcome =
        finish({"--nproc-per-node", "3", "--inject", "kill rank=1 txn=3 phase=" + phase},
               {"--txns", "6", "--step-us", "500"}, phase);
    EXPECT_EQ(last_line(outcome.out), state) << phase;
    EXPECT_EQ(incidents(phase), 1) << phase;
  }
}

TEST_F(Launcher, EveryWayToDieIsADeath) {
  const std::string state = expected("6");
  for (const std::string action : {"exit=7", "exit=0", "abort", "segv", "throw"}) {
    const Outcome outcome =
        finish({"--nproc-per-node", "3", "--inject", action + " rank=2 txn=2 phase=forward"},
               {"--txns", "6", "--step-us", "500"}, action);
    EXPECT_EQ(last_line(outcome.out), state) << action;
    EXPECT_EQ(incidents(action), 1) << action;
  }
}

TEST_F(Launcher, TwoAtOnceAreOneIncident) {
  for (const auto& [a, b] : {std::pair{"0", "1"}, {"1", "2"}, {"0", "2"}}) {
    const std::string name = std::string(a) + b;
    const std::string fault = std::string("kill rank=") + a +
                              " txn=3 phase=forward; kill rank=" + b + " txn=3 phase=forward";
    const Outcome outcome = finish({"--nproc-per-node", "3", "--inject", fault},
                                   {"--txns", "8", "--step-us", "500"}, name);
    EXPECT_EQ(last_line(outcome.out), expected("8")) << fault;
    EXPECT_EQ(incidents(name), 1) << fault;
  }
}

TEST_F(Launcher, AReplacementJoinsAndTheReportHasItsPhases) {
  const Outcome outcome =
      finish_held(6, "replacement joined",
                  {"--nproc-per-node", "3", "--inject", "kill rank=1 txn=5 phase=backward"},
                  {"--txns", "40", "--step-us", "500"});
  EXPECT_EQ(last_line(outcome.out), expected("40"));
  for (const std::string row : {"death", "noticed", "aborted", "regrouped", "step begun again",
                                "step committed", "replacement joined"})
    EXPECT_NE(outcome.err.find("  " + row), std::string::npos) << row << "\n" << outcome.err;
}

TEST_F(Launcher, ANewcomerKilledWhileItHealsCostsNothing) {
  const std::string fault = "kill rank=1 txn=5 phase=backward; kill rank=new phase=heal";
  const Outcome outcome =
      finish_held(6, "(worker 4) died (SIGKILL)", {"--nproc-per-node", "3", "--inject", fault},
                  {"--txns", "40", "--step-us", "500"});
  EXPECT_EQ(last_line(outcome.out), expected("40"));
  EXPECT_EQ(steps_in(outcome.out), count_to(40));
}

TEST_F(Launcher, ADonorKilledWhileItCopiesCostsNothing) {
  // The highest rank copies its state.
  const std::string fault = "kill rank=2 txn=5 phase=backward; kill rank=1 phase=heal";
  const Outcome outcome =
      finish_held(6, "(worker 2) died (SIGKILL)", {"--nproc-per-node", "3", "--inject", fault},
                  {"--txns", "40", "--step-us", "500"});
  EXPECT_EQ(last_line(outcome.out), expected("40"));
}

TEST_F(Launcher, AStoppedWorkerIsEvictedAfterTheGrace) {
  const Outcome outcome = finish({"--nproc-per-node", "3", "--stop-grace", "0.3", "--inject",
                                  "stop rank=1 txn=3 phase=backward"},
                                 {"--txns", "8", "--step-us", "500"});
  EXPECT_EQ(last_line(outcome.out), expected("8"));
  EXPECT_GE(number_behind(outcome.err, "stopped for "), 0.3) << outcome.err;
  EXPECT_GE(outcome.seconds, 0.3);
}

// Before the first failure, once.
TEST_F(Launcher, SaysWhatItWillDoAboutFailures) {
  const Outcome outcome = finish({"--nproc-per-node", "3", "--max-replacements", "7",
                                  "--max-restarts", "2", "--inject", "kill txn=3"},
                                 {"--txns", "6", "--step-us", "500"});
  const std::string policy =
      "3 workers; replacements of those that die: 7 (--max-replacements); restarts of all: 2 "
      "(--max-restarts)\n";
  const auto at = outcome.err.find(policy);
  ASSERT_NE(at, std::string::npos) << outcome.err;
  EXPECT_LT(at, outcome.err.find("SIGKILL")) << outcome.err;
  EXPECT_EQ(outcome.err.find(policy, at + 1), std::string::npos) << outcome.err;
}

TEST_F(Launcher, AShortStopIsNoIncident) {
  Child launcher(command({"--nproc-per-node", "3", "--stop-grace", "5"},
                         {"--txns", "3000", "--step-us", "1000"}));
  ASSERT_TRUE(launcher.wait_for_output("step 5\n"));
  const Outcome status = run({LOCKSTEP_PROGRAM, "status", run_dir(), "--json"});
  ASSERT_EQ(status.code, 0) << status.err;
  EXPECT_NE(status.out.find(R"("state":"running","world_size":3,"target_world_size":3)"),
            std::string::npos)
      << status.out;
  const std::string key = "\"pid\":";
  const int pid = std::atoi(status.out.c_str() + status.out.find(key) + key.size());
  ASSERT_GT(pid, 1) << status.out;
  ::kill(pid, SIGSTOP);
  std::this_thread::sleep_for(100ms);
  ::kill(pid, SIGCONT);
  const Outcome outcome = launcher.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(last_line(outcome.out), expected("3000"));
  EXPECT_EQ(incidents(), 0);
}

TEST_F(Launcher, AllKilledIsResumable) {
  const Outcome outcome =
      run(command({"--nproc-per-node", "3", "--inject", "kill txn=4 phase=forward repeat=3"},
                  {"--txns", "8", "--step-us", "500", "--checkpoint-every", "2"}));
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  const Outcome again =
      finish({"--nproc-per-node", "2"}, {"--txns", "8", "--checkpoint-every", "2"});
  EXPECT_EQ(last_line(again.out), expected("8"));
  EXPECT_EQ(steps_in(again.out).front(), 4);  // goes on from the checkpoint
}

// What is said of the next start is what the directory has.
TEST_F(Launcher, AllKilledBeforeACheckpointStartsFromTheBeginning) {
  const Outcome outcome =
      run(command({"--nproc-per-node", "3", "--inject", "kill txn=4 phase=forward repeat=3"},
                  {"--txns", "8", "--step-us", "500"}));
  EXPECT_EQ(outcome.code, 75) << outcome.err;
  EXPECT_NE(outcome.err.find("there is no checkpoint yet: the same command starts from the "
                             "beginning"),
            std::string::npos)
      << outcome.err;
  EXPECT_EQ(outcome.err.find("goes on from"), std::string::npos) << outcome.err;
}

TEST_F(Launcher, AllKilledIsARestartWhereOneIsLeft) {
  const Outcome outcome = finish({"--nproc-per-node", "3", "--max-restarts", "1", "--inject",
                                  "kill txn=5 phase=forward repeat=3"},
                                 {"--txns", "8", "--step-us", "500", "--checkpoint-every", "2"});
  EXPECT_EQ(last_line(outcome.out), expected("8"));
  EXPECT_EQ(steps_in(outcome.out), count_to(8));  // each line once
}

TEST_F(Launcher, FailureOfTheLastWorkerIsOneAndItsErrorComesFirst) {
  const Outcome outcome =
      run(command({"--max-replacements", "0"}, {"--txns", "8", "--fail", "0:3"}));
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(outcome.err.find(
                "lockstep: error: rank 0 (worker 1): the toy was told to fail in transaction 3"),
            outcome.err.find("lockstep: error: "))
      << outcome.err;
}

TEST_F(Launcher, LogsAreInTorchrunsLayout) {
  const std::string logs = folder_ / "logs";
  const Outcome outcome = run(command({"--nproc-per-node", "2", "--rdzv-id", "job", "--log-dir",
                                       logs, "--tee", "3", "--max-replacements", "0"},
                                      {"--txns", "8", "--fail", "1:3"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::filesystem::path folder = std::filesystem::directory_iterator(logs)->path();
  EXPECT_TRUE(folder.filename().string().starts_with("job_"));
  EXPECT_TRUE(std::filesystem::exists(folder / "attempt_0/0/stdout.log"));
  EXPECT_NE(read_text(folder / "attempt_0/1/error.json").find("the toy was told to fail"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder / "attempt_0/0/error.json"));
}

TEST_F(Launcher, WrongInputIsNotTriedAgain) {
  for (const auto& [fault, code] :
       {std::pair{"exit=65 rank=1 txn=2", 65}, {"exit=2 rank=1 txn=2", 2}}) {
    const Outcome outcome =
        run(command({"--nproc-per-node", "3", "--max-restarts", "5", "--inject", fault},
                    {"--txns", "8", "--step-us", "500"}));
    EXPECT_EQ(outcome.code, code) << outcome.err;
    std::filesystem::remove_all(run_dir());
  }
}

TEST_F(Launcher, AWorkerThatIsAboutToRunSomethingElseIsNamed) {
  const Outcome outcome =
      run(command({"--nproc-per-node", "2"}, {"--txns", "8", "--odd-manifest"}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("odd"), std::string::npos) << outcome.err;
}

TEST_F(Launcher, MoreWorkersThanSharesAreRefused) {
  const Outcome outcome = run(command({"--nproc-per-node", "5"}, {"--txns", "8", "--shares", "4"}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("virtual workers"), std::string::npos) << outcome.err;
}

TEST_F(Launcher, AProgramThatEndsBeforeTheForkPointGivesItsCode) {
  EXPECT_EQ(run(command({"--nproc-per-node", "3"}, {"--startup-exit", "0"})).code, 0);
  EXPECT_EQ(run(command({"--nproc-per-node", "3"}, {"--startup-exit", "4"})).code, 4);
}

TEST_F(Launcher, ASecondThreadAtTheForkPointIsNamed) {
  const Outcome outcome = run(command({"--nproc-per-node", "2"}, {"--thread"}));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("thread 'toy_second'"), std::string::npos) << outcome.err;
}

TEST_F(Launcher, NothingOutlivesALauncherThatIsKilled) {
  const Words words = command({"--nproc-per-node", "3"},
                              {"--txns", "100000", "--step-us", "1000", "--checkpoint-every", "5"});
  Child launcher(words);
  ASSERT_TRUE(launcher.wait_for_output("step 20\n"));
  launcher.send(SIGKILL);
  EXPECT_TRUE(until([&] { return processes_with(run_dir()).empty(); }, 10s));
  EXPECT_EQ(launcher.wait().code, -SIGKILL);
  // The same command goes on, and removes what was left in the directory.
  EXPECT_TRUE(std::filesystem::exists(run_dir() + "/.tmp-lockstep-control"));
  Child second(words);
  ASSERT_TRUE(second.wait_for_output("step "));
  EXPECT_GE(steps_in(second.out()).front(), 15);
  second.send(SIGINT);
  EXPECT_EQ(second.wait().code, 130);
}

TEST_F(Launcher, ARunDirectoryHasOneLauncher) {
  const Words words = command({"--nproc-per-node", "2"}, {"--txns", "100000", "--step-us", "1000"});
  Child first(words);
  ASSERT_TRUE(first.wait_for_output("step 1\n"));
  const Outcome second = run(words);
  EXPECT_EQ(second.code, 69) << second.err;
  EXPECT_NE(second.err.find("in use"), std::string::npos) << second.err;
  EXPECT_GE(second.seconds, 4.9);
  EXPECT_LE(second.seconds, 15.0);
  first.send(SIGTERM);
  EXPECT_EQ(first.wait().code, 143);
}

TEST_F(Launcher, ScalesDownToOneAndUpToFour) {
  // Long enough for a slow machine's `status` to see each of its sizes.
  Child launcher(command({"--nproc-per-node", "3"}, {"--txns", "1500", "--step-us", "3000"}));
  const auto members = [&] {
    const Outcome status = run({LOCKSTEP_PROGRAM, "status", run_dir(), "--json"});
    int count = 0;
    for (std::size_t at = 0; (at = status.out.find("\"rank\":", at)) != std::string::npos; ++at)
      if (status.out.compare(at + 7, 4, "null") != 0) ++count;
    return count;
  };
  const auto wait_for_members = [&](int wanted) {
    const auto end = std::chrono::steady_clock::now() + 10s;
    int now = members();
    while (now != wanted && std::chrono::steady_clock::now() < end) now = members();
    return now;
  };
  ASSERT_TRUE(launcher.wait_for_output("step 5\n"));
  EXPECT_EQ(run({LOCKSTEP_PROGRAM, "scale", run_dir(), "1"}).code, 0);
  EXPECT_EQ(wait_for_members(1), 1);
  EXPECT_EQ(run({LOCKSTEP_PROGRAM, "scale", run_dir(), "4"}).code, 0);
  EXPECT_EQ(wait_for_members(4), 4);
  const Outcome refused = run({LOCKSTEP_PROGRAM, "scale", run_dir(), "5"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("virtual workers"), std::string::npos) << refused.err;
  const Outcome outcome = launcher.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(last_line(outcome.out), expected("1500"));
  EXPECT_EQ(steps_in(outcome.out), count_to(1500));
  EXPECT_EQ(incidents(), 0) << outcome.err;
}

TEST_F(Launcher, SignalsStopInOrder) {
  for (const auto& [signal, code] : {std::pair{SIGINT, 130}, {SIGTERM, 143}}) {
    Child launcher(command({"--nproc-per-node", "3"}, {"--txns", "100000", "--step-us", "1000"}));
    ASSERT_TRUE(launcher.wait_for_output("step 5\n"));
    launcher.send(signal);
    const Outcome outcome = launcher.wait();
    EXPECT_EQ(outcome.code, code) << outcome.err;
    EXPECT_EQ(incidents(), 0);
    std::filesystem::remove_all(run_dir());
  }
}

TEST_F(Launcher, ADeadZygoteCostsNoWorker) {
  Hold hold(run_dir(), 301);
  Child launcher(command({"--nproc-per-node", "3", "--inject", "kill rank=1 txn=300 phase=forward"},
                         {"--txns", "340", "--step-us", "500", "--greets"}));
  ASSERT_TRUE(launcher.wait_for_output("step 5\n"));
  // The zygote is the launcher's oldest child: the first whose parent it is.
  const std::string children = read_text("/proc/" + std::to_string(launcher.pid()) + "/task/" +
                                         std::to_string(launcher.pid()) + "/children");
  const pid_t zygote = std::atoi(children.c_str());
  ASSERT_GT(zygote, 1);
  ::kill(zygote, SIGKILL);
  EXPECT_TRUE(until([&] { return launcher.err().find("replacement joined") != std::string::npos; }))
      << launcher.err();
  hold.release();
  const Outcome outcome = launcher.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(last_line(outcome.out), expected("340"));
  EXPECT_EQ(outcome.out.find("before init\n"), 0U) << outcome.out;
  EXPECT_EQ(outcome.out.rfind("before init\n"), 0U);  // once
  EXPECT_EQ(incidents(), 1) << outcome.err;           // the injected one alone
}

TEST_F(Launcher, ALimitOnFileSizesIsNamed) {
  const std::string line = std::string("ulimit -f 1000; exec ") + LOCKSTEP_PROGRAM + " run " +
                           TOY_WORKER + " --run-dir " + run_dir();
  const Outcome outcome = run({"sh", "-c", line});
  EXPECT_EQ(outcome.code, 69);
  EXPECT_NE(outcome.err.find("ulimit -f"), std::string::npos) << outcome.err;
}

TEST_F(Launcher, TheAgentIsSmallAndKeepsNoDescriptors) {
  std::string faults;
  for (int i = 1; i <= 12; ++i)
    faults += "kill rank=" + std::to_string(i % 2) +
              " phase=forward txn=" + std::to_string(i * 200) + ";";
  Child launcher(command({"--nproc-per-node", "3", "--max-replacements", "100", "--inject", faults},
                         {"--txns", "100000", "--step-us", "1000"}));
  const auto descriptors = [&] {
    std::error_code error;
    return std::distance(std::filesystem::directory_iterator(
                             "/proc/" + std::to_string(launcher.pid()) + "/fd", error),
                         {});
  };
  ASSERT_TRUE(launcher.wait_for_output("step 20\n"));
  const auto early = descriptors();
  ASSERT_TRUE(launcher.wait_for_output("step 3000\n", 90s));
  EXPECT_TRUE(until([&] { return descriptors() == early && incidents() == 12; }, 30s))
      << descriptors() << ", not " << early << "; " << incidents();
  const std::string status = read_text("/proc/" + std::to_string(launcher.pid()) + "/status");
  const long kilobytes = std::atol(status.c_str() + status.find("RssAnon:") + 8);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // their shadow memory counts
  EXPECT_LE(kilobytes, 10 * 1024) << status;
#else
  EXPECT_GT(kilobytes, 0) << status;
#endif
  launcher.send(SIGTERM);
  EXPECT_EQ(launcher.wait().code, 143);
}

}  // namespace
}  // namespace lockstep::test

// Programs that link Lockstep without its showing in their own file: in a library that they need,
// behind a wrapper, in a plug-in. They take part, or are told why they cannot.
#include <gmock/gmock.h>

#include "fault/launcher_support.h"
#include "support/until.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class Linked : public ToyRun {
 protected:
  // Three workers of it, one of which is killed; the others wait for its replacement.
  void expect_to_survive(const Words& options, Words program, const std::string& name,
                         const Child::Variables& variables = {}) const {
    Words all{"--nproc-per-node", "3", "--inject", "kill rank=1 txn=20 phase=forward"};
    all.insert(all.end(), options.begin(), options.end());
    program.insert(program.end(), {"--run-dir", run_dir(name), "--txns", "60", "--step-us", "700"});
    const Outcome outcome =
        run_held(run_dir(name), 21, "replacement joined", command_of(all, program), variables);
    EXPECT_EQ(outcome.code, 0) << name << outcome.err;
    EXPECT_EQ(last_line(outcome.out), expected("60")) << name << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("replacement joined")) << name;
  }
  void expect_refused(Words program, const std::string& named) const {
    program.insert(program.end(), {"--run-dir", run_dir("refused"), "--txns", "5"});
    for (const std::string workers : {"1", "2"}) {
      const Outcome outcome = run(command_of({"--nproc-per-node", workers}, program));
      EXPECT_EQ(outcome.code, 2) << outcome.err;
      EXPECT_THAT(outcome.err, HasSubstr("could not see it: it started '" + named + "'"));
      EXPECT_THAT(outcome.err, HasSubstr("lockstep run --linked ... " + named));
      EXPECT_THAT(outcome.out, Not(HasSubstr("state")));
    }
    EXPECT_FALSE(std::filesystem::exists(run_dir("refused") + "/metrics.jsonl"));
  }
};

TEST_F(Linked, InALibraryThatTheProgramNeeds) {
  expect_to_survive({}, {TOY_BY_LIBRARY}, "in-place");
  expect_to_survive({"--start-method", "exec"}, {TOY_BY_LIBRARY}, "exec");
  // Elsewhere than it was linked to: where the loader finds it, we do.
  namespace fs = std::filesystem;
  fs::create_directories(folder_ / "libraries");
  fs::copy(TOY_LIBRARY, folder_ / "libraries");
  expect_to_survive({}, {TOY_BY_LIBRARY}, "moved", {{"LD_LIBRARY_PATH", folder_ / "libraries"}});
}

// As is a plain program's.
TEST_F(Linked, ARunOnOneNodeOfSeveralIsToldSo) {
  const Words program{TOY_WORKER, "--run-dir", run_dir("run"), "--txns", "5"};
  const auto told = [&](const Words& options, const Child::Variables& variables) {
    const Outcome outcome = run(command_of(options, program), variables);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.err;
  };
  EXPECT_THAT(told({}, {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "2"}}),
              HasSubstr("this job of Slurm has 2 nodes"));
  EXPECT_THAT(told({"--rdzv-backend=c10d", "--rdzv-endpoint=elsewhere"}, {}),
              HasSubstr("is given without --nnodes"));
  EXPECT_THAT(told({}, {}), Not(HasSubstr("--nnodes")));
}

TEST_F(Linked, BehindAWrapperThatIsSaidToLink) {
  const std::string child =
      script("child.sh", std::string("#!/bin/sh\n") + TOY_WORKER + " \"$@\"\n");
  const std::string exec =
      script("exec.sh", std::string("#!/bin/sh\nexec ") + TOY_WORKER + " \"$@\"\n");
  expect_refused({child}, child);
  expect_refused({exec}, exec);
  expect_to_survive({"--linked"}, {child}, "child");
  expect_to_survive({"--linked"}, {exec}, "exec");
  expect_to_survive({"--linked", "--start-method", "exec"}, {exec}, "exec-exec");
}

TEST_F(Linked, BehindAWrapperEndsWithTheLauncher) {
  const std::string child =
      script("child.sh", std::string("#!/bin/sh\n") + TOY_WORKER + " \"$@\"\n");
  for (const std::string method : {"fork", "exec"}) {
    Child launcher(command_of({"--linked", "--nproc-per-node", "2", "--start-method", method},
                              {child, "--run-dir", run_dir(method), "--txns", "100000"}));
    ASSERT_TRUE(launcher.wait_for_output("step 5\n"));
    launcher.send(SIGKILL);
    launcher.wait();
    EXPECT_TRUE(until([&] { return processes_with(run_dir(method)).empty(); })) << method;
    std::filesystem::remove_all(run_dir(method));  // its socket's file stays
  }
}

TEST_F(Linked, InAPlugInOfAHostThatIsSaidToLink) {
  expect_refused({TOY_HOST, TOY_LIBRARY}, TOY_HOST);
  expect_to_survive({"--linked"}, {TOY_HOST, TOY_LIBRARY}, "host");
}

// Of several nodes it needs a place where they meet, as all programs do.
TEST_F(Linked, IsOnOneNodeUnlessItIsToldWhereTheyMeet) {
  const Words program{TOY_WORKER, "--run-dir", run_dir(), "--txns", "5"};
  const Outcome outcome = run(command_of({"--nnodes", "2"}, program));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--rdzv-endpoint"));
  EXPECT_EQ(run(command_of({"--nnodes", "1"}, program)).code, 0);
}

// A tool that a script calls, in a run of the script's.
TEST_F(Linked, WhoWantsToTrainAloneSaysSo) {
  const std::string tool =
      script("tool.sh", std::string("#!/bin/sh\nenv -u RANK -u WORLD_SIZE ") + TOY_WORKER +
                            " --run-dir " + run_dir() + ".$RANK --txns 20\n");
  const Outcome outcome = run(command_of({"--nproc-per-node", "2"}, {tool}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string state = expected("20") + "\n";
  EXPECT_THAT(outcome.out, HasSubstr(state));
}

// Another launcher's single worker has nobody to miss.
TEST_F(Linked, TheOnlyWorkerOfAnotherLauncherTrainsAlone) {
  const Child::Variables torchrun{
      {"TORCHELASTIC_RUN_ID", "job"}, {"RANK", "0"}, {"WORLD_SIZE", "1"}};
  const Outcome outcome = run({TOY_WORKER, "--run-dir", run_dir(), "--txns", "20"}, torchrun);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(Linked, SaidOfOneThatDoesNotIsToldAtItsEnd) {
  const Outcome outcome = run(command_of({"--linked"}, {"/bin/true"}));
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("ended with exit 0 before lockstep::init()"));
}

// What a wrapper closes cannot be inherited.
TEST_F(Linked, AWrapperThatClosesDescriptorsIsTold) {
  const std::string closes =
      script("closes.sh", std::string("#!/bin/bash\nfor fd in /proc/self/fd/*; do fd=${fd##*/}; "
                                      "[ $fd -gt 2 ] && eval \"exec $fd>&-\"; done\n") +
                              TOY_WORKER + " \"$@\"\n");
  const Outcome outcome =
      run(command_of({"--linked"}, {closes, "--run-dir", run_dir(), "--txns", "5"}));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("must leave descriptors open"));
}

}  // namespace
}  // namespace lockstep::test

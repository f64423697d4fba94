// Programs that know nothing of Lockstep, under torchrun's contract: environment, logs, restarts,
// reports, exit codes.
#include "fault/plain_support.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

TEST_F(Plain, WorkersGetTorchrunsEnvironment) {
  const std::string program =
      script("env.sh", "#!/bin/sh\nenv > " + folder_ / "env" + ".$RANK\necho \"$@\" > " +
                           folder_ / "args" + ".$RANK\n");
  const Outcome outcome = launch(
      {"--nproc-per-node=2", "--role", "trainer", "--max_restarts", "3", "--rdzv-id=job7"},
      {program, "--nproc-per-node", "x y", "${local_rank}"}, {{"RANK", "9"}, {"WORLD_SIZE", "9"}});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  for (const std::string rank : {"0", "1"}) {
    const std::string env = "\n" + read_text(folder_ / ("env." + rank));
    for (const std::string& line :
         {"RANK=" + rank, "LOCAL_RANK=" + rank, "ROLE_RANK=" + rank, std::string("WORLD_SIZE=2"),
          std::string("LOCAL_WORLD_SIZE=2"), std::string("ROLE_WORLD_SIZE=2"),
          std::string("GROUP_RANK=0"), std::string("GROUP_WORLD_SIZE=1"),
          std::string("ROLE_NAME=trainer"), std::string("MASTER_ADDR=127.0.0.1"),
          std::string("TORCHELASTIC_RESTART_COUNT=0"), std::string("TORCHELASTIC_MAX_RESTARTS=3"),
          std::string("TORCHELASTIC_RUN_ID=job7"), std::string("TORCHELASTIC_USE_AGENT_STORE=True"),
          std::string("TORCH_NCCL_ASYNC_ERROR_HANDLING=1"), std::string("OMP_NUM_THREADS=1")})
      EXPECT_NE(env.find("\n" + line + "\n"), std::string::npos) << line << env;
    EXPECT_NE(env.find("\nMASTER_PORT="), std::string::npos);
    EXPECT_NE(env.find("\nTORCHELASTIC_ERROR_FILE=/"), std::string::npos);
    EXPECT_EQ(read_text(folder_ / ("args." + rank)), "--nproc-per-node x y " + rank + "\n");
  }
}

// Whatever whoever started the launcher ignored or blocked.
TEST_F(Plain, WorkersBeginWithTheSystemsSignals) {
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &blocked, &before);
  for (const int number : {SIGPIPE, SIGUSR2, SIGRTMIN + 5}) ::signal(number, SIG_IGN);
  const Outcome outcome = launch({}, {"grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"});
  for (const int number : {SIGPIPE, SIGUSR2, SIGRTMIN + 5}) ::signal(number, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  const std::string none = "\t0000000000000000\n";
  EXPECT_EQ(outcome.out, "SigBlk:" + none + "SigIgn:" + none) << outcome.err;
}

TEST_F(Plain, DefaultsComeFromTheEnvironment) {
  const Outcome outcome =
      launch({}, {"/bin/sh", "-c", "echo $RANK of $WORLD_SIZE"}, {{"PET_NPROC_PER_NODE", "3"}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("2 of 3"), std::string::npos) << outcome.out;
}

TEST_F(Plain, OneFailureStopsAllAndIsReported) {
  const std::string program = script("fail.sh", "#!/bin/sh\n[ $RANK = 1 ] && exit 7\nsleep 60\n");
  const Outcome outcome = launch({"--nproc-per-node", "3"}, {program});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_LT(outcome.seconds, 20.0);
  EXPECT_NE(outcome.err.find("Root Cause (first observed failure):\n[0]:"), std::string::npos)
      << outcome.err;
  EXPECT_NE(outcome.err.find("rank      : 1 (local_rank: 1)"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("exitcode  : 7"), std::string::npos) << outcome.err;
}

TEST_F(Plain, WhatAProgramLeavesBehindIsKilled) {
  const std::string program =
      script("strays.sh", "#!/bin/sh\nsh -c 'sleep 61; :' " + folder_.path() +
                              " & setsid sh -c 'sleep 62; :' " + folder_.path() + " &\nexit 0\n");
  const Outcome outcome = launch({"--nproc-per-node", "2"}, {program});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
}

TEST_F(Plain, TheGroupIsRestarted) {
  const std::string program = script(
      "restart.sh",
      "#!/bin/sh\necho attempt $TORCHELASTIC_RESTART_COUNT of $RANK\n"
      "[ $RANK = 0 ] && [ $TORCHELASTIC_RESTART_COUNT -lt 2 ] && exit 3\nsleep 0.1\nexit 0\n");
  const Outcome outcome = launch({"--nproc-per-node", "2", "--max-restarts", "2"}, {program});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("attempt 2 of 0"), std::string::npos) << outcome.out;
  EXPECT_EQ(launch({"--nproc-per-node", "2", "--max-restarts", "1"}, {program}).code, 1);
}

TEST_F(Plain, ErrorFilesAreRead) {
  const std::string text =
      R"({"message": {"message": "ValueError: the toy", "extraInfo": {"py_callstack": "Traceback: the stack", "timestamp": "1"}}})";
  const std::string program =
      script("error.sh", "#!/bin/sh\necho '" + text + "' > $TORCHELASTIC_ERROR_FILE\nexit 1\n");
  for (const Words& options : {Words{}, Words{"--log-dir", folder_ / "logs"}}) {
    const Outcome outcome = launch(options, {program});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_NE(outcome.err.find("traceback : Traceback: the stack"), std::string::npos)
        << outcome.err;
  }
  EXPECT_TRUE(std::filesystem::exists(log_folder() / "attempt_0/0/error.json"));
}

TEST_F(Plain, RedirectsAndTeesGoWhereTorchrunPutsThem) {
  const std::string program = script("out.sh", "#!/bin/sh\necho out $RANK\necho err $RANK >&2\n");
  const Outcome outcome = launch({"--nproc-per-node", "3", "--rdzv_id", "job", "--log-dir",
                                  folder_ / "logs", "-r", "0:3", "--tee", "1:3,2:1"},
                                 {program});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.find("out 0"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("[default1]:out 1\n"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("[default2]:out 2\n"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.err.find("[default1]:err 1\n"), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("err 2\n"), std::string::npos) << outcome.err;
  const auto folder = log_folder();
  EXPECT_TRUE(folder.filename().string().starts_with("job_"));
  EXPECT_EQ(read_text(folder / "attempt_0/0/stdout.log"), "out 0\n");
  EXPECT_EQ(read_text(folder / "attempt_0/0/stderr.log"), "err 0\n");
  EXPECT_EQ(read_text(folder / "attempt_0/1/stdout.log"), "out 1\n");
  EXPECT_EQ(read_text(folder / "attempt_0/2/stdout.log"), "out 2\n");
}

TEST_F(Plain, OnlyFilteredRanksAreOnTheConsole) {
  const Outcome outcome = launch({"--nproc-per-node", "3", "--local-ranks-filter", "1"},
                                 {"/bin/sh", "-c", "echo out $RANK"});
  EXPECT_EQ(outcome.out, "out 1\n");
}

TEST_F(Plain, InterruptStopsTheWorkers) {
  Child launcher({LOCKSTEP_PROGRAM, "run", "--nproc-per-node", "2", "/bin/sh", "-c",
                  "echo up; exec sleep 63.25"});
  ASSERT_TRUE(launcher.wait_for_output("up\nup\n"));
  launcher.send(SIGINT);
  EXPECT_EQ(launcher.wait().code, 130);
  EXPECT_TRUE(processes_with("63.25").empty());
}

TEST_F(Plain, AWorkerThatIgnoresTermIsKilled) {
  Child launcher({LOCKSTEP_PROGRAM, "run", "--shutdown-timeout", "0.3", "/bin/sh", "-c",
                  "trap '' TERM; echo up; sleep 64; sleep 64"});
  ASSERT_TRUE(launcher.wait_for_output("up\n"));
  launcher.send(SIGTERM);
  const Outcome outcome = launcher.wait();
  EXPECT_EQ(outcome.code, 143);
  EXPECT_LT(outcome.seconds, 20.0);
  EXPECT_NE(outcome.err.find("rank 0: not ended 0.3 s after"), std::string::npos) << outcome.err;
}

TEST_F(Plain, BadCommandLinesAreTwo) {
  for (const Words& options : {Words{"--nproc-per-nod", "2"},
                               {"--nproc-per-node", "0"},
                               {"--nproc-per-node", "many"},
                               {"--nnodes", "2"},
                               {"--rdzv-backend", "etcd"},
                               {"--inject", "kill rank=x"},
                               {"--tee", "7"},
                               {"--start-method", "fork"}})
    EXPECT_EQ(launch(options, {"/bin/true"}).code, 2) << options[0];
  EXPECT_EQ(launch({}, {"./no-such-program"}).code, 2);
  EXPECT_EQ(launch({}, {}).code, 2);
  EXPECT_NE(launch({"--nproc", "2"}, {"/bin/true"}).err.find("did you mean '--nproc-per-node'"),
            std::string::npos);
  EXPECT_NE(
      launch({"--nproc-per-nod", "2"}, {"/bin/true"}).err.find("did you mean '--nproc-per-node'"),
      std::string::npos);
}

// What has no effect is refused; a variable is for all commands.
TEST_F(Plain, OptionsOfStepsAreRefused) {
  for (const Words& options : {Words{"--max-replacements", "3"},
                               {"--stop-grace", "5"},
                               {"--hang-timeout", "60"},
                               {"--progress", "10"},
                               {"--inject", "kill rank=0"},
                               {"--start-method", "fork"}}) {
    const Outcome outcome = launch(options, {"/bin/true"});
    EXPECT_EQ(outcome.code, 2) << options[0];
    EXPECT_NE(outcome.err.find(options[0]), std::string::npos) << outcome.err;
    EXPECT_NE(outcome.err.find("'/bin/true' does not link Lockstep"), std::string::npos)
        << outcome.err;
  }
  const Child::Variables variables{{"PET_MAX_REPLACEMENTS", "3"}, {"PET_HANG_TIMEOUT", "60"}};
  EXPECT_EQ(launch({}, {"/bin/true"}, variables).code, 0);
}

TEST_F(Plain, PythonTorchTrainsOverGloo) {
  const std::string python = torch_python();
  if (python.empty()) GTEST_SKIP() << "skipped: no python3 with torch";
  const std::string program = script("allreduce.py",
                                     "import torch, torch.distributed as dist\n"
                                     "dist.init_process_group('gloo')\n"
                                     "t = torch.tensor([float(dist.get_rank() + 1)])\n"
                                     "dist.all_reduce(t)\n"
                                     "print(f'sum {t.item()}\\n', end='', flush=True)\n"
                                     "dist.barrier()\n"
                                     "dist.destroy_process_group()\n");
  const Outcome outcome =
      launch({"--standalone", "--nproc-per-node", "2"}, {program}, {{"PYTHON_EXEC", python}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "sum 3.0\nsum 3.0\n");
}

TEST_F(Plain, AFreshAttemptCanUseItsPort) {
  const std::string python = torch_python();
  if (python.empty()) GTEST_SKIP() << "skipped: no python3 with torch";
  const std::string program =
      script("restart.py",
             "import os, torch.distributed as dist\n"
             "dist.init_process_group('gloo')\n"
             "dist.barrier()\n"
             "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0' and dist.get_rank() == 1:\n"
             "    os.abort()\n"
             "dist.barrier()\n"
             "print('done\\n', end='', flush=True)\n");
  const Outcome outcome = launch({"--nproc-per-node", "2", "--max-restarts", "1"}, {program},
                                 {{"PYTHON_EXEC", python}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "done\ndone\n");
}

}  // namespace
}  // namespace lockstep::test

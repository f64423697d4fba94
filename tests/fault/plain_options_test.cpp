// Options and variables of torchrun's with plain programs: each has its effect, or is refused.
#include <gmock/gmock.h>

#include <algorithm>

#include "base/cpus.h"
#include "fault/plain_support.h"

namespace lockstep::test {
namespace {

using namespace std::string_literals;
using testing::HasSubstr;

TEST_F(Plain, PrefixesAreTemplates) {
  const auto shown = [&](const std::string& pattern) {
    return launch({"--nproc-per-node", "2", "--tee", "1:1", "--role", "r", "--log-dir",
                   folder_ / "logs", "--local-ranks-filter", "1"},
                  {"/bin/sh", "-c", "echo x"}, {{"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", pattern}})
        .out;
  };
  EXPECT_EQ(shown("[$rank]"), "[1]x\n");
  EXPECT_EQ(shown("$$$role_name${local_rank}0 $other "), "$r10 $other x\n");
}

TEST_F(Plain, FlagsThatAreOffAreTaken) {
  for (const char* name :
       {"PET_RUN_PATH", "PET_VIRTUAL_LOCAL_RANK", "PET_STANDALONE", "PET_NO_PYTHON"})
    EXPECT_EQ(launch({}, {"/bin/true"}, {{name, "0"}}).code, 0) << name;
}

TEST_F(Plain, WhatCannotHaveItsEffectIsRefused) {
  for (const Words& options : {Words{"-r", "0:1,"},
                               {"-t", ",0:1"},
                               {"--local-ranks-filter", "0,"},
                               {"--monitor-interval", "often"},
                               {"--event-log-handler", "console"},
                               {"--numa-binding", "node"},
                               {"--logs-specs", "mine"},
                               {"--duplicate-stdout-filters", "x"},
                               {"--rdzv-conf", "timeout"},
                               {"--rdzv-conf=timout=9", "--nnodes=2", "--rdzv-endpoint=h"},
                               {"--nnodes", "1:2"},
                               {"--nnodes", ""},
                               {"--node-rank", "1"},
                               {"--node-rank", ""},
                               {"--master-addr", ""},
                               {"--local-addr", ""},
                               {"--rdzv-endpoint", ""},
                               {"--rdzv-endpoint", ":29517"},
                               {"--rdzv-endpoint", "a:29517,b:29517"},
                               {"--rdzv-endpoint", "host:"},
                               {"--rdzv-endpoint", "host:70000"},
                               {"--rdzv-endpoint", "[::1"},
                               {"--master-addr", "host:29500"},
                               {"--run-path", "-m"}}) {
    const Outcome outcome = launch(options, {"/bin/true"});
    EXPECT_EQ(outcome.code, 2) << options[0] << outcome.err;
    const std::string name = options[0].substr(options[0].starts_with("--") ? 2 : 1);
    EXPECT_THAT(outcome.err, HasSubstr(name.substr(0, name.find('='))));
  }
  EXPECT_EQ(launch({"--event-log-handler", "null", "--monitor-interval", "0.1", "--local-addr", "h",
                    "--rdzv-conf", "timeout=9,last_call_timeout=1"},
                   {"/bin/true"})
                .code,
            0);
  const Outcome timer = launch({}, {"/bin/true"}, {{"TORCHELASTIC_ENABLE_FILE_TIMER", "1"}});
  EXPECT_EQ(timer.code, 2);
  EXPECT_THAT(timer.err, HasSubstr("TORCHELASTIC_ENABLE_FILE_TIMER=1"));
  EXPECT_EQ(launch({}, {"/bin/true"}, {{"TORCHELASTIC_ENABLE_FILE_TIMER", "0"}}).code, 0);
}

// An unset variable, or a habit: what would be missing is shown.
TEST_F(Plain, NodesWithoutAPlaceToMeetAreRefusedAtOnce) {
  for (const Words& options : {Words{}, {"--master-port", "29500"}, {"--node-rank", "0"}}) {
    Words all{"--nnodes", "2"};
    all.insert(all.end(), options.begin(), options.end());
    const Outcome outcome = launch(all, {"/bin/true", "-x"});
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("lockstep run --rdzv-endpoint HOST:29400 --nnodes 2"));
    EXPECT_THAT(outcome.err, HasSubstr(" /bin/true …"));
  }
}

// A step of Slurm says how many nodes there are; a batch script without srun is on one of them.
TEST_F(Plain, SlurmIsHeeded) {
  const Child::Variables step{{"SLURM_JOB_ID", "7"},         {"SLURM_STEP_ID", "0"},
                              {"SLURM_STEP_NUM_NODES", "1"}, {"SLURM_STEP_NODELIST", "n1"},
                              {"SLURM_NODEID", "0"},         {"SLURM_STEP_TASKS_PER_NODE", "1"}};
  const Words show{"/bin/sh", "-c", "echo $TORCHELASTIC_RUN_ID $WORLD_SIZE"};
  EXPECT_EQ(launch({}, show, step).out, "7.0 1\n");
  EXPECT_EQ(launch({"--rdzv-id", "x"}, show, step).out, "x 1\n");
  Child::Variables tasks = step;
  tasks.emplace_back("SLURM_LOCALID", "3");
  const Outcome second = launch({}, show, tasks);
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.err, HasSubstr("one lockstep per node"));
  EXPECT_EQ(launch({"--standalone"}, show, tasks).code, 0);
  const Outcome batch = launch({}, show, {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "2"}});
  EXPECT_EQ(batch.out, "none 1\n");
  EXPECT_THAT(batch.err, HasSubstr("this job of Slurm has 2 nodes"));
  EXPECT_THAT(launch({"--standalone"}, show, {{"SLURM_JOB_NUM_NODES", "2"}}).err,
              testing::Not(HasSubstr("Slurm")));
}

TEST_F(Plain, AnEndpointIsParsed) {
  const auto address = [&](const std::string& text) {
    return launch({"--rdzv-backend", "static", "--rdzv-endpoint", text},
                  {"/bin/sh", "-c", "echo $MASTER_ADDR $MASTER_PORT"})
        .out;
  };
  EXPECT_EQ(address("[::1]:29517"), "::1 29517\n");
  EXPECT_THAT(address("[::1]"), testing::StartsWith("::1 "));
  EXPECT_THAT(address("::1"), testing::StartsWith("::1 "));
  EXPECT_EQ(address("host:29518"), "host 29518\n");
  EXPECT_EQ(launch({"--master-addr", "[::1]"}, {"/bin/sh", "-c", "echo $MASTER_ADDR"}).out,
            "::1\n");
}

TEST_F(Plain, NoFilesWithDevNullAsLogFolder) {
  const Outcome outcome =
      launch({"--log-dir", "/dev/null", "-r", "1", "-t", "2", "--nproc-per-node", "2"},
             {"/bin/sh", "-c", "echo out$TORCHELASTIC_ERROR_FILE; echo err >&2"},
             {{"TMPDIR", "/nonexistent"}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "out\nout\n");
  EXPECT_THAT(outcome.err, HasSubstr("[default1]:err\n"));
}

TEST_F(Plain, RunPathStartsAScriptOfAnyName) {
  const std::string program = script("train", "import sys\nprint(__name__, sys.argv[1:])\n");
  EXPECT_EQ(launch({"--run-path", "--no-python"}, {program, "-x"}).out, "__main__ ['-x']\n");
}

TEST_F(Plain, AVirtualLocalRankIsZeroOfOneDevice) {
  const auto devices = [&](const Child::Variables& variables) {
    return launch({"--nproc-per-node", "2", "--virtual-local-rank", "--redirects", "0:1",
                   "--log-dir", folder_ / "logs"},
                  {"/bin/sh", "-c", "echo $RANK $LOCAL_RANK $CUDA_VISIBLE_DEVICES"}, variables);
  };
  EXPECT_EQ(devices({}).out, "1 0 1\n");
  EXPECT_EQ(devices({{"CUDA_VISIBLE_DEVICES", "4, GPU-7"}}).out, "1 0 GPU-7\n");
  EXPECT_EQ(devices({{"CUDA_VISIBLE_DEVICES", "4"}}).code, 2);
}

// torchrun's words: gpu, and auto where there is one, is a worker for each that it may see.
TEST_F(Plain, WorkersAreAsManyAsGpus) {
  const auto workers = [&](const std::string& word, Child::Variables variables) {
    variables.emplace_back("LD_LIBRARY_PATH", FAKE_NVML_FOLDER);
    return launch({"--nproc-per-node", word, "--local-ranks-filter", "0"},
                  {"/bin/sh", "-c", "echo $WORLD_SIZE"}, variables);
  };
  EXPECT_EQ(workers("gpu", {{"FAKE_GPUS", "3"}}).out, "3\n");
  EXPECT_EQ(workers("auto", {{"FAKE_GPUS", "3"}}).out, "3\n");
  EXPECT_EQ(workers("auto", {{"FAKE_GPUS", "3"}, {"CUDA_VISIBLE_DEVICES", "2,0"}}).out, "2\n");
  const std::string cpus = std::to_string(cpus_for_workers(posix_env())) + "\n";
  EXPECT_EQ(workers("cpu", {{"FAKE_GPUS", "3"}}).out, cpus);
  EXPECT_EQ(workers("auto", {{"FAKE_GPUS", "3"}, {"CUDA_VISIBLE_DEVICES", ""}}).out, cpus);
  for (const Child::Variables& none : {Child::Variables{}, {{"FAKE_GPUS", "0"}}}) {
    EXPECT_EQ(workers("auto", none).out, cpus);
    const Outcome refused = workers("gpu", none);
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("no NVIDIA GPU"));
  }
  EXPECT_EQ(workers("auto", {{"FAKE_NVML_CODE", "12"}}).out, cpus) << "it finds no library";
  const auto broken = [&](Child::Variables variables, const std::string& says) {
    const Outcome refused = workers("auto", std::move(variables));  // CPUs would be another run
    EXPECT_EQ(refused.code, 69);
    EXPECT_THAT(refused.err, HasSubstr(says + " (does nvidia-smi work?)"));
  };
  broken({{"FAKE_NVML_CODE", "999"}}, "NVML error 999");
  broken({{"FAKE_GPUS", "3"}, {"FAKE_NVML_CODE", "15"}}, "NVML error 15");
  broken({{"FAKE_GPUS", "3"}, {"FAKE_NVML_CODE", "-1"}}, "ends the process that asks it");
}

// What execve() says of these is "No such file or directory" or "Exec format error".
TEST_F(Plain, WhyAProgramCannotBeStartedIsSaid) {
  const auto said = [&](const std::string& name) {
    const Outcome outcome = launch({"--no-python", "--max-restarts", "3"}, {name});
    EXPECT_EQ(outcome.code, 2) << name << outcome.err;
    EXPECT_LT(outcome.seconds, 15.0);
    return outcome.err;
  };
  EXPECT_THAT(said(script("t", "#!/opt/none/python3\n")), HasSubstr("'/opt/none/python3'"));
  EXPECT_THAT(said(script("u", "#!/bin/sh\r\necho\r\n")), HasSubstr("'/bin/sh\\r'"));
  EXPECT_THAT(said(script("e", "#!/usr/bin/env foo-none\n")), HasSubstr("'foo-none'"));
  EXPECT_THAT(said(script("er", "#!/usr/bin/env sh\r\n")), HasSubstr("'sh\\r'"));
  EXPECT_THAT(said(script("es", "#! /usr/bin/env -S A=1 foo-none -x\n")), HasSubstr("'foo-none'"));
  EXPECT_THAT(said(script("nested", "#!" + script("t", "#!/opt/none/python3\n") + "\n")),
              HasSubstr("'/opt/none/python3'"));
  EXPECT_THAT(said(script("bare", "#!\n")), HasSubstr("names no interpreter"));
  EXPECT_THAT(said(script("v", "echo hi\n")), HasSubstr("#!/bin/sh"));
  EXPECT_THAT(said(script("bom", "\xef\xbb\xbf#!/bin/sh\n")), HasSubstr("byte order mark"));
  EXPECT_THAT(said(script("x", "\177ELF")), HasSubstr("cut short"));
  EXPECT_THAT(said(script("empty", "")), HasSubstr("empty"));
  std::filesystem::create_directory(folder_ / "w");
  EXPECT_THAT(said(folder_ / "w"), HasSubstr("folder"));
  const std::string plain = script("noexec", "#!/bin/sh\n");
  std::filesystem::permissions(plain, std::filesystem::perms::owner_read);
  EXPECT_THAT(said(plain), HasSubstr("chmod +x"));
  // An ELF file of another processor, and one whose loader is not there.
  std::string elf = read_text("/bin/true");
  ASSERT_TRUE(elf.starts_with("\177ELF"));
  std::string other = elf;
  other[18] = static_cast<char>(other[18] == 22 ? 62 : 22);  // e_machine: S/390
  other[19] = 0;
  EXPECT_THAT(said(script("s390", other)), HasSubstr("processor"));
  const std::size_t loader = elf.find("/lib");
  ASSERT_NE(loader, std::string::npos);
  elf[loader + 1] = 'n';
  EXPECT_THAT(said(script("loader", elf)), HasSubstr("/nib"));
  EXPECT_EQ(launch({"--no-python"}, {script("ok", "#! /usr/bin/env -S sh -e\n")}).code, 0);
}

// A group of the v1 hierarchy, which whoever tests may have the right to make.
TEST_F(Plain, AutoHeedsTheQuotaOfARealControlGroup) {
  const std::string outer = "/sys/fs/cgroup/cpu/lockstep-test-" + std::to_string(::getpid());
  const std::string group = outer + "/inner";
  const auto set = [&](const std::string& file, const std::string& text) {
    std::ofstream stream(file);
    return static_cast<bool>(stream << text << std::flush);
  };
  std::error_code error;
  if (!std::filesystem::create_directories(group, error) ||
      !set(outer + "/cpu.cfs_quota_us", "50000"))
    GTEST_SKIP() << "skipped: no cgroup v1 with CPU quotas that this user may set";
  const auto workers = [&](const std::string& how) {
    const Outcome outcome = run(
        {"/bin/sh", "-c",
         "echo $$ >" + group + "/cgroup.procs && exec " LOCKSTEP_PROGRAM " run --nproc-per-node " +
             how + " /bin/sh -c 'echo worker'"});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return std::ranges::count(outcome.out, '\n');
  };
  EXPECT_EQ(workers("auto"), 1);  // by the outer one's
  EXPECT_EQ(workers("cpu"), 1);
  EXPECT_EQ(workers("2"), 2);  // what is asked for is asked for
  set(outer + "/cpu.cfs_quota_us", "-1");
  EXPECT_EQ(workers("auto"), usable_cpus());
  std::filesystem::remove(group, error);
  std::filesystem::remove(outer, error);
}

TEST_F(Plain, StatusOfAFolderThatIsNotThereSaysSo) {
  for (const char* command : {"status", "scale"}) {
    Words words{LOCKSTEP_PROGRAM, command, folder_ / "none"};
    if (command == "scale"s) words.emplace_back("2");
    const Outcome outcome = run(words);
    EXPECT_EQ(outcome.code, 69);
    EXPECT_THAT(outcome.err, HasSubstr("there is no folder '" + folder_ / "none" + "'"));
  }
  folder_.write("file", "x");
  EXPECT_THAT(run({LOCKSTEP_PROGRAM, "status", folder_ / "file"}).err, HasSubstr("is no folder"));
  std::filesystem::create_directory(folder_ / "empty");
  const Outcome empty = run({LOCKSTEP_PROGRAM, "status", folder_ / "empty"});
  EXPECT_EQ(empty.code, 69);
  EXPECT_THAT(empty.err, HasSubstr("holds no run"));
}

}  // namespace
}  // namespace lockstep::test

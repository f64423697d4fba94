// How plain programs end and start again, and what they leave behind.
#include <gmock/gmock.h>
#include <sys/file.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "fault/plain_support.h"
#include "support/until.h"

namespace lockstep::test {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;
using testing::HasSubstr;
using testing::Not;

TEST_F(Plain, EachRestartIsProgress) {
  const std::string program =
      script("sixth.sh", "#!/bin/sh\n[ $TORCHELASTIC_RESTART_COUNT = 5 ]\n");
  const Outcome outcome = launch({"--max-restarts", "10"}, {program});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(launch({"--max-restarts", "4"}, {program}).err,
              HasSubstr("no restart is left: 4 of 4 used (--max-restarts gives more)"));
}

// Of helpers: 5 s after a good end, in its group and outside.
TEST_F(Plain, HelpersMayEndTheirWorkAfterAGoodEnd) {
  const std::string done = folder_ / "done";
  const std::string program =
      script("upload.sh", "#!/bin/sh\n(sleep 1; echo late; : >" + done + "-group.$RANK) &\n" +
                              "setsid sh -c 'sleep 1; : >" + done + "-own.$RANK' &\n");
  const Outcome outcome =
      launch({"--nproc-per-node", "2", "--tee", "1", "--log-dir", folder_ / "logs"}, {program});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_LT(outcome.seconds, 15.0);
  EXPECT_THAT(outcome.out, HasSubstr("[default1]:late\n"));  // and it is heard
  for (const char* name : {"-group.0", "-group.1", "-own.0", "-own.1"})
    EXPECT_TRUE(std::filesystem::exists(done + name)) << name;
}

// Each is gone before its KILL is due, and has started the next one, in a session of its own.
TEST_F(Plain, HelpersThatStartEachOtherEndAsWell) {
  const std::string program = script("chain.sh",
                                     "#!/bin/sh\ntrap '' TERM\n"
                                     "[ ${1:-0} -gt 600 ] && exit 0\n"
                                     "[ -n \"$1\" ] && sleep 0.05\n"
                                     "setsid \"$0\" $((${1:-0} + 1)) " +
                                         folder_.path() + " &\n[ -n \"$1\" ] && exit 0\nexit 3\n");
  const Outcome outcome = launch({}, {program});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_LT(outcome.seconds, 15.0);  // the chain takes 30
}

TEST_F(Plain, WhatIsLeftGetsTermAndThenKill) {
  const std::string seen = folder_ / "term";
  const std::string program =
      script("stays.sh", "#!/bin/sh\nsh -c 'trap \": >" + seen +
                             "; exit\" TERM; while :; do sleep 0.05; done' &\n"
                             "for session in env setsid; do\n"
                             "  $session sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' " +
                             folder_.path() + " &\ndone\nexit 3\n");
  const Outcome outcome = launch({}, {program});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_TRUE(std::filesystem::exists(seen));
  EXPECT_GT(outcome.seconds, 1.9);  // 1 s after a bad end, 1 s from TERM to KILL
  EXPECT_LT(outcome.seconds, 8.0);  // and 3 s more for the daemon
  EXPECT_THAT(outcome.err, HasSubstr("waiting for what the workers have left behind: sh (pid "));
}

// Three workers, each a script around what computes, which heeds no TERM: in a process group of its
// own, in a session of its own, and as a daemon. All write who they are into one file.
TEST_F(Plain, NothingOfAnAttemptMeetsTheNext) {
  const std::string computes = script("computes.sh",
                                      "#!/bin/bash\ntrap '' TERM\nuntil [ -e $WITNESS.end ]; do\n"
                                      "  echo \"$TORCHELASTIC_RESTART_COUNT $RANK $EPOCHREALTIME\" "
                                      ">>$WITNESS || exit\n  sleep 0.01\ndone\n");
  const std::string program = script(
      "around.sh",
      "#!/bin/bash\nseen() { for r in 0 1 2; do grep -q \"^$1 $r \" $WITNESS || return; done; }\n"
      "case $RANK in\n0) timeout 99 " +
          computes + " & ;;\n1) setsid " + computes + " & ;;\n2) setsid sh -c '" + computes +
          " & ' & ;;\nesac\n"
          "until seen $TORCHELASTIC_RESTART_COUNT; do sleep 0.01; done\n"
          "[ $TORCHELASTIC_RESTART_COUNT = 1 ] && : >$WITNESS.end && exit 0\n"
          "[ $RANK = 1 ] && kill -KILL $$\nsleep 99\n");
  const Outcome outcome = launch({"--nproc-per-node", "3", "--max-restarts", "1"}, {program},
                                 {{"WITNESS", folder_ / "witness"}});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream lines(read_text(folder_ / "witness"));
  double last_of_first = 0, first_of_second = 1e18, at = 0;
  int attempt = 0, rank = 0;
  while (lines >> attempt >> rank >> at) {
    if (attempt == 0) last_of_first = std::max(last_of_first, at);
    if (attempt == 1) first_of_second = std::min(first_of_second, at);
  }
  EXPECT_LT(last_of_first, first_of_second) << "two attempts at once";
  EXPECT_LT(first_of_second - last_of_first, 2.5);
}

// `lockstep run … > >(tee log)`: the shell's other process is a child of ours, and no worker's.
TEST_F(Plain, WhatTheShellHasStartedForTheLauncherIsLeftAlone) {
  const std::string program = script("says.sh",
                                     "#!/bin/sh\necho \"attempt $TORCHELASTIC_RESTART_COUNT\"\n"
                                     "exit $((1 - TORCHELASTIC_RESTART_COUNT))\n");
  const std::string log = folder_ / "log";
  Words words{"/bin/bash", "-c", "exec \"$@\" > >(cat >" + log + ")", "bash"};
  const Words command = command_of({"--max-restarts", "1"}, {program});
  words.insert(words.end(), command.begin(), command.end());
  EXPECT_EQ(run(words).code, 0);
  EXPECT_TRUE(until([&] { return read_text(log).find("attempt 1") != std::string::npos; },
                    std::chrono::seconds(5)))
      << read_text(log);
  EXPECT_THAT(read_text(log), HasSubstr("attempt 0"));
}

// It is not waited for, and has the time that it needs.
TEST_F(Plain, WhatUnlinksSharedMemoryOutlivesItsAttempt) {
  const std::string named = folder_ / "named", second = folder_ / "second";
  const std::string cleans =
      script("torch_shm_manager", "#!/bin/sh\n: >" + named + "\nfor i in $(seq 400); do\n  [ -e " +
                                      second + " ] && sleep 2 && : >" + folder_ / "unlinked." +
                                      "$TORCHELASTIC_RESTART_COUNT && exit\n  sleep 0.05\ndone\n");
  const std::string program =
      script("share.sh", "#!/bin/sh\nsetsid " + cleans +
                             " &\n[ $TORCHELASTIC_RESTART_COUNT = 1 ] && : >" + second +
                             " && exit\nuntil [ -e " + named + " ]; do sleep 0.01; done\nexit 1\n");
  const Outcome outcome = launch({"--max-restarts", "1"}, {program});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(std::filesystem::exists(folder_ / "unlinked.0"));
}

TEST_F(Plain, ARestartEndsHelpersAtOnce) {
  const std::string program = script("again.sh",
                                     "#!/bin/sh\nif [ $TORCHELASTIC_RESTART_COUNT = 0 ]; then\n"
                                     "  sleep 71 " +
                                         folder_.path() + " & setsid sh -c 'sleep 72; :' " +
                                         folder_.path() + " & date +%s.%N >" + folder_ / "first" +
                                         "; exit 1\nfi\ndate +%s.%N >" + folder_ / "second" +
                                         "\n"
                                         "ps -eo args | grep -c '^sleep 7[12]' || :\n");
  const Outcome outcome = launch({"--max-restarts", "1"}, {program});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_LT(std::stod(read_text(folder_ / "second")) - std::stod(read_text(folder_ / "first")),
            2.5);
  EXPECT_EQ(outcome.out, "0\n");
}

TEST_F(Plain, ASignalCutsTheWaitShort) {
  Child launcher(
      {LOCKSTEP_PROGRAM, "run", "/bin/sh", "-c", "sleep 73 " + folder_.path() + " & echo up"});
  ASSERT_TRUE(launcher.wait_for_output("up\n"));
  std::this_thread::sleep_for(300ms);
  launcher.send(SIGTERM);
  const Outcome outcome = launcher.wait();
  EXPECT_LT(outcome.seconds, 10.0);
}

TEST_F(Plain, PythonsSharedMemoryIsCleanedUp) {
  const std::string name = "lockstep_test_" + std::to_string(::getpid());
  const std::string program =
      script("shm.py",
             "import os, sys, time\nfrom multiprocessing import shared_memory\n"
             "s = shared_memory.SharedMemory(create=True, size=1000, name='" +
                 name +
                 "_' + os.environ['RANK'])\n"
                 // Between making its memory and telling its helper of it, the other would leak it.
                 "if sys.argv[1] == 'raise' and os.environ['RANK'] == '1':\n"
                 "  while not os.path.exists(sys.argv[2]): time.sleep(.01)\n"
                 "  raise ValueError('x')\n"
                 "if sys.argv[1] == 'raise': open(sys.argv[2], 'w')\n"
                 "if sys.argv[1] == 'raise': time.sleep(60)\n");
  for (const std::string how : {"end", "raise"}) {
    const Outcome outcome = launch({"--nproc-per-node", "2"}, {program, how, folder_ / "told"});
    EXPECT_EQ(outcome.code, how == "end" ? 0 : 1) << outcome.err;
    for (const char* rank : {"_0", "_1"})
      EXPECT_FALSE(std::filesystem::exists("/dev/shm/" + name + rank)) << how << rank;
  }
}

TEST_F(Plain, TheLaunchersOwnErrorFileHasTheRootCause) {
  const std::string own = folder_ / "deep/er/own.json";
  const auto told = [&](const Words& program, int code) {
    std::filesystem::remove_all(folder_ / "deep");
    EXPECT_EQ(launch({"--nproc-per-node", "2"}, program, {{"TORCHELASTIC_ERROR_FILE", own}}).code,
              code);
    return nlohmann::json::parse(read_text(own), nullptr, false);
  };
  const std::string message =
      R"({"message": {"message": "ValueError: the toy", "extraInfo": {"py_callstack": "the stack", "timestamp": "1"}}})";
  const auto copied =
      told({script("error.sh", "#!/bin/sh\n[ $RANK = 0 ] && sleep 60\necho '" + message +
                                   "' >$TORCHELASTIC_ERROR_FILE\nexit 7\n")},
           1);
  EXPECT_EQ(copied["message"]["extraInfo"]["py_callstack"], "the stack");
  EXPECT_EQ(copied["message"]["errorCode"], 7);
  const auto text = told({script("text.sh",
                                 "#!/bin/sh\necho '{\"message\": \"words\"}' >"
                                 "$TORCHELASTIC_ERROR_FILE\nexit 4\n")},
                         1);
  EXPECT_EQ(text["message"], "words");
  const auto made = told({script("kill.sh", "#!/bin/sh\nkill -SEGV $$\n")}, 1);
  EXPECT_THAT(made["message"]["message"].get<std::string>(), HasSubstr("SIGSEGV"));
  EXPECT_EQ(made["message"]["errorCode"], -SIGSEGV);
  const auto none = told({"./no-such-program"}, 2);
  EXPECT_THAT(none["message"]["message"].get<std::string>(), HasSubstr("no-such-program"));
  EXPECT_EQ(none["message"]["errorCode"], 2);
  EXPECT_TRUE(told({"/bin/true"}, 0).is_discarded());
}

TEST_F(Plain, AnErrorFileMayBeReplacedAndNothingStays) {
  std::filesystem::create_directory(folder_ / "tmp");
  const std::string program =
      script("replace.sh",
             "#!/bin/sh\nf=$TORCHELASTIC_ERROR_FILE\n"
             "echo '{\"message\": \"the real reason\"}' >$f.new && mv $f.new $f\nexit 1\n");
  const Outcome outcome = launch({}, {program}, {{"TMPDIR", folder_ / "tmp"}});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("traceback : the real reason"));
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "tmp"));
}

// A launcher that is killed cannot remove its folder: the next one does. That of a live one stays.
TEST_F(Plain, ALeftoverOfAKilledLauncherIsRemoved) {
  std::filesystem::create_directories(folder_ / "tmp/lockstep_errors_dead/attempt_0/0");
  std::filesystem::create_directories(folder_ / "tmp/lockstep_errors_live");
  std::filesystem::create_directories(folder_ / "tmp/other");
  const int lock = ::open((folder_ / "tmp/lockstep_errors_live").c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  EXPECT_EQ(launch({}, {"/bin/true"}, {{"TMPDIR", folder_ / "tmp"}}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "tmp/lockstep_errors_dead"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "tmp/lockstep_errors_live"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "tmp/other"));
  ::close(lock);
}

TEST_F(Plain, ATemporaryFolderIsFoundWhereTmpdirIsNone) {
  for (const std::string& none : {"/nonexistent"s, ""s, "/proc"s, folder_ / "file"}) {
    folder_.write("file", "in the way");
    const Outcome outcome = launch({"--redirects", "3"},
                                   {"/bin/sh", "-c", "test -d $(dirname $TORCHELASTIC_ERROR_FILE)"},
                                   {{"TMPDIR", none}});
    EXPECT_EQ(outcome.code, 0) << none << outcome.err;
    const std::string at = "logs go to '";
    const std::size_t begin = outcome.err.find(at) + at.size();
    std::filesystem::remove_all(outcome.err.substr(begin, outcome.err.find('\'', begin) - begin));
  }
}

TEST_F(Plain, TeedLinesAreWholeHoweverLong) {
  const std::string program = script(
      "long.sh",
      "#!/bin/sh\nfor i in 1 2 3; do head -c 6000000 /dev/zero | tr '\\0' $RANK; echo; done\n");
  const Outcome outcome =
      launch({"--nproc-per-node", "2", "--tee", "3", "--log-dir", folder_ / "logs"}, {program});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::istringstream lines(outcome.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    ASSERT_TRUE(line.starts_with("[default")) << line.substr(0, 40);
    const std::string rank = line.substr(8, 1);
    EXPECT_EQ(line, "[default" + rank + "]:" + std::string(6'000'000, rank[0]));
  }
  EXPECT_EQ(count, 6);
  EXPECT_THAT(outcome.err, Not(HasSubstr("missing")));
}

}  // namespace
}  // namespace lockstep::test

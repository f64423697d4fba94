// What the launcher refuses, and output that cannot be written.
#include <gmock/gmock.h>

#include "fault/launcher_support.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;
using Commands = ToyRun;

TEST_F(Commands, OutputThatIsNotTakenIsAnError) {
  for (const std::string words : {"--help", "help run", "run --help", "--version"}) {
    const Outcome outcome =
        run({"/bin/sh", "-c", LOCKSTEP_PROGRAM + (" " + words) + " > /dev/full"});
    EXPECT_EQ(outcome.code, 1) << words;  // as for every full disk
    EXPECT_THAT(outcome.err, HasSubstr("No space left on device")) << words;
  }
}

// The run goes on, and says so.
TEST_F(Commands, AnOutputThatTakesNothingIsToldOnce) {
  Words words{"/bin/sh", "-c", "exec \"$@\" > /dev/full", "sh"};
  const Words options{"--nproc-per-node", "3", "--tee", "1", "--log-dir", folder_ / "logs"};
  for (const std::string& word : command(options, {"--txns", "6", "--print", "3"}))
    words.push_back(word);
  const Outcome outcome = run(words);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string told = "standard output cannot be written: No space left on device";
  EXPECT_THAT(outcome.err, HasSubstr(told));
  EXPECT_EQ(outcome.err.find(told), outcome.err.rfind(told));
}

TEST_F(Commands, AHangTimeoutBelowTheLeastIsRefused) {
  const Outcome outcome = run({LOCKSTEP_PROGRAM, "run", "--hang-timeout", "0", "true"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--hang-timeout takes seconds from 1 to 86400, not '0'"));
}

TEST_F(Commands, AWorkingDirectoryThatIsGoneIsSaid) {
  const Outcome outcome =
      run({"/bin/sh", "-c",
           "mkdir \"$0\" && cd \"$0\" && rmdir \"$0\" && exec " LOCKSTEP_PROGRAM " run true",
           folder_ / "gone"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("the working directory cannot be found"));
}

TEST_F(Commands, WordsThatNobodyWantsAreRefused) {
  for (const auto& [words, says] : std::vector<std::pair<Words, std::string>>{
           {{"version", "x"}, "version takes no argument, but got 'x'"},
           {{"help", "foo"}, "no help on 'foo'"},
           {{"help", "rnu"}, "did you mean 'run'?"},
           {{"train.py"}, "'train.py'; programs are started by 'lockstep run [options] program'"},
           {{"--standalone", "train.py"}, "programs are started by 'lockstep run"},
           {{"./train"}, "programs are started by 'lockstep run"},
           {{"scael", "d", "2"}, "'scael'; did you mean 'scale'? ('lockstep help' lists"},
           {{"help", "run", "x"}, "help takes one command"},
           {{"scale", "--hlep"}, "usage: lockstep scale RUN_DIR WORKERS"},
           {{"status", "--jsno", "d"}, "unexpected '--jsno'"},
           {{"key", "a", "b"}, "unexpected 'b'; usage: lockstep key [--print | FILE]"},
           {{"key", "--print", "a"}, "unexpected 'a'"},
           {{"key", ""}, "unexpected ''"},
           {{"data"}, "usage: lockstep data get mnist|cifar10|cifar100 DIR"},
           {{"data", "get", "cifar", "d"}, "no data set 'cifar' is known"},
           {{"data", "get", "cifar1O", "d"}, "did you mean 'cifar10'?"},
           {{"data", "get", "cifar10", "s3://bucket/x"}, "'s3://bucket/x'"}}) {
    Words line{LOCKSTEP_PROGRAM};
    line.insert(line.end(), words.begin(), words.end());
    const Outcome outcome = run(line);
    EXPECT_EQ(outcome.code, 2) << words[0];
    EXPECT_THAT(outcome.err, HasSubstr(says));
    EXPECT_EQ(outcome.out, "");
  }
}

TEST_F(Commands, EachHasItsHelp) {
  for (const std::string command : {"run", "scale", "status", "data", "key"}) {
    const Outcome by_option = run({LOCKSTEP_PROGRAM, command, "--help"}),
                  by_command = run({LOCKSTEP_PROGRAM, "help", command});
    EXPECT_EQ(by_option.code, 0) << by_option.err;
    EXPECT_THAT(by_option.out, testing::StartsWith("usage: lockstep " + command));
    EXPECT_EQ(by_command.code, 0) << by_command.err;
    EXPECT_EQ(by_command.out, by_option.out);
  }
  const std::string scale = run({LOCKSTEP_PROGRAM, "scale", "-h"}).out;
  for (const std::string word : {"virtual workers", "30 s", "69", "highest ranks"})
    EXPECT_THAT(scale, HasSubstr(word));
}

TEST_F(Commands, KeyMakesAFileAndNeverOverwritesOne) {
  const std::string home = run_dir("home"), usual = home + "/.config/lockstep/run_key";
  std::filesystem::create_directory(home);
  const Words at_home{"/usr/bin/env",   "-u", "XDG_CONFIG_HOME", "HOME=" + home,
                      LOCKSTEP_PROGRAM, "key"};
  const Outcome made = run(at_home), again = run(at_home);
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(made.out, usual + "\n");
  const std::string key = read_text(usual);
  EXPECT_THAT(key, testing::MatchesRegex("[0-9a-f]{64}\n"));
  EXPECT_EQ(again.code, 2);
  EXPECT_THAT(again.err, HasSubstr("'" + usual + "' is there already"));
  EXPECT_EQ(read_text(usual), key);
  const Outcome printed = run({LOCKSTEP_PROGRAM, "key", "--print"});
  EXPECT_EQ(printed.code, 0);
  EXPECT_THAT(printed.out, testing::MatchesRegex("[0-9a-f]{64}\n"));
  EXPECT_NE(printed.out, key);
}

TEST_F(Commands, WorkersNeverGetTheKey) {
  const Outcome outcome =
      run({"/usr/bin/env", "LOCKSTEP_RUN_KEY=0123456789abcdef0123456789abcdef", LOCKSTEP_PROGRAM,
           "run", "--no-python", "/bin/sh", "-c", "echo \"key=$LOCKSTEP_RUN_KEY.\""});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("key=.\n"));
}

// In the words that the cluster tutorial's obs_transfer() logs.
TEST_F(Commands, CopySaysWhatTheTutorialsSays) {
  const std::string from = run_dir("from"), to = run_dir("to");
  std::filesystem::create_directory(from);
  std::ofstream(from + "/epoch_1.pth") << "weights";
  for (const std::string told :
       {"1 files copied, 7 bytes; 0 were", "0 files copied, 0 bytes; 1 were"}) {
    const Outcome outcome = run({LOCKSTEP_PROGRAM, "copy", from, to});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "end copy data from " + from + " to " + to + "\n");
    EXPECT_THAT(outcome.err, HasSubstr(told));
  }
  EXPECT_EQ(run({LOCKSTEP_PROGRAM, "copy", run_dir("none"), to}).out, "");
}

// What needs no launcher to be seen comes first; where no launcher is, it is one code.
TEST_F(Commands, ScaleAndStatusOfNoRun) {
  std::filesystem::create_directory(run_dir("empty"));
  std::ofstream(run_dir("file")) << "text";
  for (const std::string name : {"none", "empty", "file"}) {
    for (const std::string workers : {"0", "-1", "many", "1000000"}) {
      const Outcome outcome = run({LOCKSTEP_PROGRAM, "scale", run_dir(name), workers});
      EXPECT_EQ(outcome.code, 2) << name << " " << workers;
      EXPECT_THAT(outcome.err, HasSubstr("'" + workers + "'"));
    }
    for (const Words& words : {Words{LOCKSTEP_PROGRAM, "scale", run_dir(name), "2"},
                               {LOCKSTEP_PROGRAM, "status", run_dir(name)}}) {
      const Outcome outcome = run(words);
      EXPECT_EQ(outcome.code, 69) << words[1] << " " << name;
      const std::string in = "in '" + run_dir(name) + "'";
      EXPECT_THAT(outcome.err,
                  HasSubstr(name == "none"         ? "there is no folder '" + run_dir(name) + "'"
                            : name == "file"       ? "'" + run_dir(name) + "' is no folder"
                            : words[1] == "status" ? "'" + run_dir(name) + "' holds no run"
                                                   : "no launcher is running " + in));
    }
  }
}

// Rules that never fire test nothing.
TEST_F(Commands, AFaultThatNeverFiredIsNamed) {
  const Outcome outcome = finish(
      {"--nproc-per-node", "2", "--inject", "kill rank=1 txn=2 phase=forward;  kill rank=7 txn=3 "},
      {"--txns", "6", "--step-us", "500"});
  EXPECT_THAT(outcome.err,
              HasSubstr("warning: --inject: 'kill rank=7 txn=3' never fired in this run\n"));
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("phase=forward")));
  const Outcome plain =
      run({LOCKSTEP_PROGRAM, "run", "--inject", "kill rank=0 txn=1", "/bin/true"});
  EXPECT_EQ(plain.code, 2);
  EXPECT_THAT(plain.err, HasSubstr("--inject: '/bin/true' does not link Lockstep"));
}

// What is refused leaves no folder of logs without a line.
TEST_F(Commands, ARefusedRunLeavesNoLogs) {
  std::filesystem::create_directory(folder_ / "tmp");
  const Outcome refused =
      run(command({"-r", "7:1"}, {"--txns", "6"}), {{"TMPDIR", folder_ / "tmp"}});
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "tmp")) << refused.err;

  const Outcome of_program =
      run(command({"--tee", "3"}, {"--startup-exit", "2"}), {{"TMPDIR", folder_ / "tmp"}});
  EXPECT_EQ(of_program.code, 2);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "tmp")) << of_program.err;

  const Outcome named = run(command({"-r", "7:1", "--log-dir", folder_ / "logs"}, {"--txns", "6"}));
  EXPECT_EQ(named.code, 2);
  EXPECT_TRUE(std::filesystem::is_empty(folder_ / "logs")) << named.err;

  // Those of a run stay, empty or not.
  EXPECT_EQ(run(command({"--tee", "3"}, {"--txns", "6"}), {{"TMPDIR", folder_ / "tmp"}}).code, 0);
  EXPECT_FALSE(std::filesystem::is_empty(folder_ / "tmp"));
}

// Those of a program that can be scaled are as many as its shares.
TEST_F(Commands, LocalRanksThatNoWorkerCanHaveAreRefused) {
  const Words options{"--nproc-per-node", "3", "--log-dir", folder_ / "logs", "--tee"};
  const auto with = [&](const std::string& ranks) {
    Words words = options;
    words.push_back(ranks);
    return words;
  };
  const Outcome refused = run(command_of(with("9:3"), {"true"}));
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--tee names local rank 9, but none is above 2"));

  const Outcome beyond = run(command(with("4:3"), {"--txns", "6"}));
  EXPECT_EQ(beyond.code, 2);
  EXPECT_THAT(beyond.err, HasSubstr("--tee names local rank 4, but none is above 3"));
  finish(with("3:3"), {"--txns", "6"});
}

}  // namespace
}  // namespace lockstep::test

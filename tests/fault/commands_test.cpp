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
  const Outcome outcome = run({LOCKSTEP_PROGRAM, "run", "--hang-timeout", "2", "true"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_THAT(outcome.err, HasSubstr("--hang-timeout takes seconds from 5 to 86400, not '2'"));
}

// Those of a program that can be scaled are as many as its shares.
TEST_F(Commands, LocalRanksThatNoWorkerCanHaveAreRefused) {
  const Words options{"--nproc-per-node", "3", "--log-dir", folder_ / "logs", "--tee"};
  const auto with = [&](const std::string& ranks) {
    Words words = options;
    words.push_back(ranks);
    return words;
  };
  Words plain{LOCKSTEP_PROGRAM, "run"};
  for (const std::string& word : with("9:3")) plain.push_back(word);
  plain.push_back("true");
  const Outcome refused = run(plain);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("--tee names local rank 9, but none is above 2"));

  const Outcome beyond = run(command(with("4:3"), {"--txns", "6"}));
  EXPECT_EQ(beyond.code, 2);
  EXPECT_THAT(beyond.err, HasSubstr("--tee names local rank 4, but none is above 3"));
  finish(with("3:3"), {"--txns", "6"});
}

}  // namespace
}  // namespace lockstep::test

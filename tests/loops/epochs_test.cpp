// What a Trainer does at an epoch's end (epochs_worker.cpp): the same lines, files and weights
// whoever is killed there.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>

#include "support/child.h"

namespace lockstep::test {
namespace {

constexpr int kSteps = 4, kEpochs = 6;  // and two more transactions an epoch

class Epochs : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;
  struct Run {
    Outcome outcome;
    std::string lines;                         // but for the time it took
    std::map<std::string, std::string> files;  // by name
  };

  Words program(const std::string& name, const std::string& how) {
    std::filesystem::create_directories(folder_ / name + "-files");
    return {EPOCHS_WORKER, folder_ / name, folder_ / name + "-files", how};
  }
  Words launcher(const std::string& name, const Words& options, const std::string& how) {
    Words words{LOCKSTEP_PROGRAM, "run", "--nproc-per-node", "3"};
    words.insert(words.end(), options.begin(), options.end());
    for (const std::string& word : program(name, how)) words.push_back(word);
    return words;
  }
  Run seen(const std::string& name, Outcome outcome) {
    Run result;
    result.lines = std::regex_replace(outcome.out, std::regex("Training complete in: .*\n"), "");
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / name + "-files"))
      result.files[entry.path().filename()] = read_text(entry.path());
    result.outcome = std::move(outcome);
    return result;
  }
  Run alone(const std::string& how = "") { return seen("alone", run(program("alone", how))); }
  Run launched(const std::string& name, const Words& options = {}, const std::string& how = "") {
    return seen(name, run(launcher(name, options, how)));
  }
  void TearDown() override {
    EXPECT_TRUE(processes_with(folder_.path()).empty()) << "a process is left behind";
  }
  TempFolder folder_;
};

TEST_F(Epochs, SchedulesTheBestLinesAndFilesAreTheSameForAnyNumberOfWorkers) {
  const Run one = alone();
  ASSERT_EQ(one.outcome.code, 0) << one.outcome.err;
  EXPECT_EQ(one.files.size(), kEpochs / 2);
  EXPECT_NE(one.lines.find("epoch 5 is written\nweights sha256 "), std::string::npos) << one.lines;
  EXPECT_EQ(one.lines.find("epoch 4 is written"), std::string::npos) << one.lines;
  EXPECT_NE(one.lines.find("epoch 0/6 after 4: "), std::string::npos) << one.lines;
  EXPECT_NE(one.files.at("epoch_5").find(one.lines.substr(one.lines.rfind(' ') + 1)),
            std::string::npos)
      << "the last file has the run's weights";
  const Run three = launched("three");
  EXPECT_EQ(three.outcome.code, 0) << three.outcome.err;
  EXPECT_EQ(three.lines, one.lines);
  EXPECT_EQ(three.files, one.files);
}

TEST_F(Epochs, WhoeverIsKilledAtAnEpochsEndTheResultIsTheSame) {
  const Run one = alone();
  int number = 0;
  for (int rank = 0; rank < 3; ++rank)
    for (const int place :
         {kSteps, kSteps + 1}) {  // the evaluation; the files, which rank 0 writes
      if (rank != 0 && place != kSteps) continue;
      const std::string name = "killed-" + std::to_string(number++);
      const int txn = 2 * (kSteps + 2) - 2 + (place - kSteps);  // of the second epoch
      const Run killed = launched(name, {"--inject", "kill rank=" + std::to_string(rank) + " txn=" +
                                                         std::to_string(txn) + " phase=evaluate"});
      EXPECT_EQ(killed.outcome.code, 0) << killed.outcome.err;
      EXPECT_NE(killed.outcome.err.find("replacement"), std::string::npos) << killed.outcome.err;
      EXPECT_EQ(killed.lines, one.lines) << name;
      EXPECT_EQ(killed.files, one.files) << name;
    }
}

TEST_F(Epochs, AllKilledAndTheSameCommandAgainGoesOnWithSchedulesAndTheBest) {
  const Run one = alone();
  const Words command = launcher("again", {}, "slow");
  {
    Child first(command);
    ASSERT_TRUE(first.wait_for_output("step 14:")) << first.err();
    first.send(SIGKILL);
    first.wait();
  }
  const Run second = launched("again", {});
  EXPECT_EQ(second.outcome.code, 0) << second.outcome.err;
  EXPECT_NE(second.outcome.err.find("resuming from"), std::string::npos) << second.outcome.err;
  ASSERT_GT(second.lines.size(), 100U);
  EXPECT_EQ(one.lines.substr(one.lines.size() - second.lines.size()), second.lines);
  EXPECT_EQ(second.files, one.files);
}

TEST_F(Epochs, AFileThatCannotBeWrittenIsToldAndTrainingGoesOn) {
  const Run one = alone("fails");
  EXPECT_EQ(one.outcome.code, 0) << one.outcome.err;
  EXPECT_NE(one.outcome.err.find("no room for"), std::string::npos) << one.outcome.err;
  EXPECT_NE(one.outcome.err.find("training goes on"), std::string::npos) << one.outcome.err;
  EXPECT_EQ(one.lines.find("is written"), std::string::npos) << one.lines;
}

}  // namespace
}  // namespace lockstep::test

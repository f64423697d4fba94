// What a Trainer does at an epoch's end (epochs_worker.cpp): the same lines, files and weights
// whoever is killed there.
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>

#include "loops/epochs_runs.h"

namespace lockstep::test {
namespace {

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
  EXPECT_EQ(three.writers, "0\n1\n2\n3\n4\n5\n");
  EXPECT_EQ(three.best, one.best);
}

// Schedules, the best and the end go by it, and all workers have the same figures.
TEST_F(Epochs, AnEvaluationThatGoesByMoreThanTheStateIsFound) {
  const std::string twice = " was computed twice, and comes to a loss of ";
  for (const Run& run :
       {alone({"counts"}), launched("three", {}, {"counts"}),
        launched("thirds", {}, {"counts", "thirds"}),
        launched("one-batch", {}, {"counts", "one-batch"}),
        // Step 4; the others wait for a newcomer, which has another average.
        seen("dies", run_held(folder_ / "dies", 5, "replacement joined",
                              launcher("dies", {"--inject", "kill rank=1 txn=6 phase=forward"},
                                       {"average"})))}) {
    EXPECT_EQ(run.outcome.code, 2) << run.outcome.err;
    EXPECT_NE(run.outcome.err.find(twice), std::string::npos) << run.outcome.err;
  }
  EXPECT_EQ(launched("average", {}, {"average"}).outcome.code, 0);
}

TEST_F(Epochs, APlateauOfTheGreatestIsOneOfAccuracy) {
  const Run one = alone({"maximum"});
  ASSERT_EQ(one.outcome.code, 0) << one.outcome.err;
  const std::regex figures(" lr ([^,]+), loss [^,]+, correct ([0-9]+) of 13,");
  double rate = 0.1, best = 0;
  int epoch = 0, reduced = 0;
  for (std::sregex_iterator it(one.lines.begin(), one.lines.end(), figures), end; it != end; ++it) {
    EXPECT_NEAR(std::stod((*it)[1]), rate, 1e-6 * rate) << "epoch " << epoch;
    const double accuracy = std::stod((*it)[2]) / 13;
    const bool better = epoch == 0 || accuracy > best * 1.5;
    if (++epoch == 4) rate *= 0.5;  // StepLR
    if (better) best = accuracy;
    if (!better) rate *= 0.1;
    reduced += better ? 0 : 1;
  }
  EXPECT_EQ(epoch, kEpochs);
  EXPECT_GT(reduced, 0);
  const Run uncounted =
      seen("uncounted", run(program("uncounted", {"maximum", "uncounted", "bare"})));
  EXPECT_EQ(uncounted.outcome.code, 2) << uncounted.outcome.err;
  EXPECT_NE(
      uncounted.outcome.err.find("mode kMax (of accuracy), but the evaluation counts nothing"),
      std::string::npos)
      << uncounted.outcome.err;
}

TEST_F(Epochs, AnOutputThatTakesNothingIsToldOnceAlone) {
  Words words{"/bin/sh", "-c", "exec \"$@\" > /dev/full", "sh"};
  for (const std::string& word : program("alone", {})) words.push_back(word);
  const Run one = seen("alone", run(words));
  EXPECT_EQ(one.outcome.code, 0) << one.outcome.err;
  EXPECT_EQ(one.files.size(), kEpochs / 2);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "alone/result.json"));
  const std::string told = "cannot write to standard output: No space left on device";
  EXPECT_NE(one.outcome.err.find(told), std::string::npos) << one.outcome.err;
  EXPECT_EQ(one.outcome.err.find(told), one.outcome.err.rfind(told)) << one.outcome.err;
}

// With the epoch's weights, and whatever newer ones are kept.
TEST_F(Epochs, TheBestHasACheckpoint) {
  const Run one = alone({"four"});
  const std::regex best(" best [^ ]+ in ([0-9]+), ");
  std::string epoch;
  for (std::sregex_iterator it(one.lines.begin(), one.lines.end(), best), end; it != end; ++it)
    epoch = (*it)[1];
  ASSERT_EQ(epoch, "3") << one.lines;
  EXPECT_EQ(one.best, "step-00000023");  // its files' transaction
  const std::string weights =
      run({LOCKSTEP_PROGRAM, "checkpoint", "show", folder_ / "alone/checkpoints/best"}).out;
  EXPECT_NE(weights.find(last_line(one.lines).substr(15)), std::string::npos) << weights;
}

TEST_F(Epochs, WhoeverIsKilledAtAnEpochsEndTheResultIsTheSame) {
  const Run one = alone();
  int number = 0;
  for (int rank = 0; rank < 3; ++rank)
    for (const int place : {kSteps, kSteps + 1}) {  // the evaluation; the files
      const std::string name = "killed-" + std::to_string(number++);
      const int txn = 2 * (kSteps + 2) - 2 + (place - kSteps);  // of the second epoch
      const Run killed = launched(
          name, {"--inject", "kill rank=" + std::to_string(rank) + " txn=" + std::to_string(txn) +
                                 " phase=" + (place == kSteps ? "evaluate" : "snapshot")});
      EXPECT_EQ(killed.outcome.code, 0) << killed.outcome.err;
      // Rank 0 alone writes; who takes over from it does, too.
      const int deaths = place == kSteps || rank == 0 ? 1 : 0;
      EXPECT_EQ(killed_in(killed.outcome), deaths) << name << ": " << killed.outcome.err;
      EXPECT_EQ(count(killed.outcome.err, "replacement is started"), deaths)
          << name << ": " << killed.outcome.err;
      EXPECT_EQ(killed.writers, "0\n1\n2\n3\n4\n5\n") << name;
      EXPECT_EQ(killed.lines, one.lines) << name;
      EXPECT_EQ(killed.files, one.files) << name;
      EXPECT_EQ(killed.best, one.best) << name;
    }
}

TEST_F(Epochs, AllKilledAndTheSameCommandAgainGoesOnWithSchedulesAndTheBest) {
  const Run one = alone();
  {
    const Hold hold(folder_ / "again", 18, std::chrono::seconds(60));
    Child first(launcher("again", {}, {}));
    ASSERT_TRUE(hold.reached()) << first.err();
    ASSERT_TRUE(until([&] { return std::filesystem::exists(folder_ / "again/checkpoints/last"); }));
    first.send(SIGKILL);
    first.wait();
  }
  const Run second = launched("again", {});
  EXPECT_EQ(second.outcome.code, 0) << second.outcome.err;
  EXPECT_NE(second.outcome.err.find("resuming from"), std::string::npos) << second.outcome.err;
  EXPECT_EQ(second.outcome.err.find("has no records"), std::string::npos) << second.outcome.err;
  const std::string lines = second.lines.substr(second.lines.find('\n') + 1);
  EXPECT_TRUE(second.lines.starts_with("goes on at epoch ")) << second.lines;
  ASSERT_GT(lines.size(), 100U);
  EXPECT_EQ(one.lines.substr(one.lines.size() - lines.size()), lines);
  EXPECT_EQ(second.files, one.files);
}

TEST_F(Epochs, KilledBeforeItsFirstCheckpointARunBeginsWhereItBegan) {
  const Words how{"snapshot"};
  const auto interrupted = [&](const std::string& name, int step) {
    {
      const Hold hold(folder_ / name, step, std::chrono::seconds(60));
      Child first(launcher(name, {}, how));
      EXPECT_TRUE(hold.reached()) << first.err();
      first.send(SIGKILL);
      first.wait();
    }
    const Run second = launched(name, {}, how);
    EXPECT_EQ(second.outcome.code, 0) << second.outcome.err;
    EXPECT_EQ(second.outcome.err.find("has no records"), std::string::npos) << second.outcome.err;
    return second;
  };
  // From the seed: the snapshots are its own, and nothing to begin from.
  const Run seed = launched("seed", {}, how);
  EXPECT_EQ(seed.outcome.code, 0) << seed.outcome.err;
  const Run seed_again = interrupted("seed-again", 3 * kSteps);
  EXPECT_EQ(last_line(seed_again.outcome.out), last_line(seed.outcome.out));

  // From a snapshot of somebody else's, of epoch 1, which the run writes over.
  const Run maker = launched("maker", {}, {"snapshot", "few"});
  EXPECT_EQ(maker.outcome.code, 0);
  const auto given = [&](const std::string& name) {
    std::filesystem::create_directories(files(name));
    std::filesystem::copy_file(files("maker") + "/snapshot.pt", files(name) + "/snapshot.pt");
    return name;
  };
  const Run whole = launched(given("given"), {}, how);
  const auto word_after = [](const std::string& text, const std::string& name) {
    const std::size_t at = text.rfind(name) + name.size();
    return text.substr(at, text.find_first_of(" ;", at) - at);
  };
  EXPECT_EQ(word_after(whole.lines.substr(0, whole.lines.find("step 12:")), "before "),
            word_after(maker.lines, ", best "));
  EXPECT_TRUE(whole.lines.starts_with("goes on at epoch 2, step 0\nstep 8:")) << whole.lines;
  EXPECT_NE(last_line(whole.outcome.out), last_line(seed.outcome.out)) << "Adam begins anew";
  const Run before = interrupted(given("before-an-export"), 3 * kSteps - 1);
  EXPECT_TRUE(before.lines.starts_with("goes on at epoch 2, step 0\n")) << before.lines;
  EXPECT_EQ(last_line(before.outcome.out), last_line(whole.outcome.out));
  const Run behind = interrupted(given("behind-an-export"), 4 * kSteps);
  EXPECT_NE(behind.outcome.err.find("resuming from"), std::string::npos) << behind.outcome.err;
  EXPECT_EQ(last_line(behind.outcome.out), last_line(whole.outcome.out));
  // Its checkpoint has all that it began with: it goes on in a directory of its own, without them.
  const Run four = launched(given("four"), {}, {"snapshot", "four"});
  std::filesystem::remove_all(files("four"));
  const std::string from = "from=" + (folder_ / "four/checkpoints/last");
  for (const char* resume : {from.c_str(), from.c_str(), "from=auto"}) {
    const Run other = launched("other", {}, {"snapshot", resume});
    EXPECT_EQ(other.outcome.code, 0) << resume << ": " << other.outcome.err;
    EXPECT_EQ(other.outcome.err.find("has no records"), std::string::npos) << other.outcome.err;
    EXPECT_EQ(last_line(other.outcome.out), last_line(whole.outcome.out)) << resume;
  }
}

// Whoever is killed over it, and whoever comes new: all end where it was said.
TEST_F(Epochs, AnEpochsEndEndsTheRunEarlyForAll) {
  const std::string says = "The run ends here, at step 4 of 4 of epoch 4 (by the program)\n";
  const Run one = alone({"stops"});
  ASSERT_EQ(one.outcome.code, 0) << one.outcome.err;
  EXPECT_NE(one.lines.find("epoch 3 is written\n" + says + "weights sha256 "), std::string::npos)
      << one.lines;
  const Run again = alone({"stops"});
  EXPECT_NE(again.outcome.err.find("was ended by its program after 16 steps"), std::string::npos)
      << again.outcome.err;
  EXPECT_EQ(last_line(again.lines), last_line(one.lines));

  const int end = 4 * (kSteps + 2) - 2;  // the transaction; its files follow
  const auto at = [](int txn) { return " txn=" + std::to_string(txn) + " "; };
  int number = 0;
  for (const std::string& fault :
       {"rank=1" + at(end) + "phase=evaluate", "rank=1" + at(end) + "phase=optimizer",
        "rank=0" + at(end + 1) + "phase=snapshot", "rank=2" + at(end + 1) + "phase=exchange",
        "rank=1" + at(end + 1) + "phase=optimizer", at(end + 1) + "phase=optimizer repeat=3",
        std::string("rank=0 phase=done")}) {
    const std::string name = "stopped-" + std::to_string(number++);
    const Run killed =
        launched(name, {"--max-restarts", "1", "--inject", "kill " + fault}, {"stops"});
    EXPECT_EQ(killed.outcome.code, 0) << fault << ": " << killed.outcome.err;
    EXPECT_EQ(killed_in(killed.outcome), fault.ends_with("repeat=3") ? 3 : 1)
        << fault << ": " << killed.outcome.err;
    EXPECT_EQ(last_line(killed.lines), last_line(one.lines)) << fault << ": " << killed.lines;
    EXPECT_EQ(killed.files, one.files) << fault;
  }
  const Run bare = launched("bare", {"--inject", "kill rank=1 txn=19 phase=optimizer"},
                            {"stops", "bare"});  // 4 * (kSteps + 1) - 1: no files
  EXPECT_EQ(killed_in(bare.outcome), 1) << bare.outcome.err;
  EXPECT_NE(bare.lines.find("\n" + says + last_line(one.lines)), std::string::npos) << bare.lines;
}

// Had there been more epochs, it would have ended there as well: so more epochs change nothing.
TEST_F(Epochs, WhatEndsWithItsLastEpochStaysEnded) {
  const Run four = alone({"stops", "four"});
  ASSERT_EQ(four.outcome.code, 0) << four.outcome.err;
  const Run six = alone({"stops"});
  EXPECT_NE(six.outcome.err.find("was ended by its program after 16 steps"), std::string::npos)
      << six.outcome.err;
  EXPECT_EQ(last_line(six.lines), last_line(four.lines));
}

TEST_F(Epochs, AnEvaluationOfNothingAnAccuracyThatNobodyCountsAndTooManyWordsAreErrors) {
  for (const auto& [word, code, message] :
       {std::tuple{"unusable", 65, "the data set left out all 13 samples as damaged"},
        {"none", 65, "the data set leaves out all of its 24 samples as damaged"},
        {"uncounted", 2, "by accuracy, but the evaluation counts nothing as correct"},
        {"wordy", 2, "bytes, limit 5376 (4608, and 256 for each virtual worker)"}}) {
    const std::string name = std::string(word) + "-alone";
    const Run one = seen(name, run(program(name, {word})));
    EXPECT_EQ(one.outcome.code, code) << one.outcome.err;
    EXPECT_EQ(count(one.outcome.err, message), 1) << one.outcome.err;
    const Run three = launched(word, {}, {word});
    EXPECT_EQ(three.outcome.code, code) << three.outcome.err;
    EXPECT_EQ(count(three.outcome.err, message), 1) << three.outcome.err;
  }
}

// An evaluation batch of which nothing is left, too; the count is the run's, not a worker's.
TEST_F(Epochs, WhatTheDataSetsLeaveOutIsCountedTheSameForAnyWorkersAndUnderKills) {
  const Run one = alone({"damaged", "four"});
  ASSERT_EQ(one.outcome.code, 0) << one.outcome.err;
  EXPECT_EQ(count(one.lines, " of 8, best "), 4) << one.lines;
  const std::string metrics = read_text(folder_ / "alone/metrics.jsonl");
  EXPECT_EQ(count(metrics, ",\"replaced\":1,"), 4) << metrics;
  EXPECT_EQ(count(metrics, ",\"train_replaced\":1,\"test_left_out\":5,"), 4) << metrics;
  const std::string ledger = read_text(folder_ / "alone/ledger.jsonl");
  EXPECT_EQ(count(ledger, ",\"replaced\":[[3,4]]}"), 4) << ledger;
  const int evaluated = 2 * (kSteps + 2) - 2;  // the second epoch's
  for (const std::string& fault :
       {" txn=" + std::to_string(evaluated - 2) + " phase=backward",
        " txn=" + std::to_string(evaluated) + " phase=evaluate", std::string(" phase=done")}) {
    const std::string name = "killed-" + fault.substr(fault.rfind('=') + 1);
    const Run killed = launched(name, {"--inject", "kill rank=0" + fault}, {"damaged", "four"});
    EXPECT_EQ(killed.outcome.code, 0) << killed.outcome.err;
    EXPECT_EQ(killed_in(killed.outcome), 1) << killed.outcome.err;
    EXPECT_EQ(killed.lines, one.lines) << fault;
    EXPECT_EQ(read_text(folder_ / name + "/metrics.jsonl"), metrics) << fault;
    EXPECT_EQ(read_text(folder_ / name + "/ledger.jsonl"), ledger) << fault;
    for (const char* once :
         {"left out as damaged in the last epoch: 1 sample in training, where the next ones stood "
          "in; 5 samples in the evaluation",
          "left out: sample 3 of the training set, by the data set; in training sample 4, the next "
          "sound one, stands in for it",
          "left out: sample 9 of the set that is evaluated"})
      EXPECT_EQ(count(killed.outcome.err, once), 1) << killed.outcome.err;
  }
}

// Half of the set, all of some batches.
TEST_F(Epochs, ManyDamagedSamplesChangeNoBatchSizeAndNoHash) {
  const Run one = alone({"sparse", "four"});
  ASSERT_EQ(one.outcome.code, 0) << one.outcome.err;
  EXPECT_EQ(count(one.lines, " of 0"), 0) << one.lines;
  for (const std::string fault : {"rank=0 txn=8 phase=exchange", "rank=2 txn=3 phase=optimizer"}) {
    const std::string name = "sparse-" + fault.substr(fault.rfind('=') + 1);
    const Run killed = launched(name, {"--inject", "kill " + fault}, {"sparse", "four"});
    EXPECT_EQ(killed.outcome.code, 0) << killed.outcome.err;
    EXPECT_EQ(killed_in(killed.outcome), 1) << killed.outcome.err;
    EXPECT_EQ(killed.lines, one.lines) << fault;
    EXPECT_EQ(killed.files, one.files) << fault;
  }
}

TEST_F(Epochs, AFileThatCannotBeWrittenIsToldAndTrainingGoesOn) {
  const Run one = alone({"fails"});
  EXPECT_EQ(one.outcome.code, 1) << one.outcome.err;
  EXPECT_NE(one.outcome.err.find("no room for"), std::string::npos) << one.outcome.err;
  EXPECT_NE(one.outcome.err.find("training goes on"), std::string::npos) << one.outcome.err;
  EXPECT_EQ(one.lines.find("is written"), std::string::npos) << one.lines;
  const Run writes = launched("writes");
  EXPECT_EQ(one.best, writes.best);  // kept all the same
  EXPECT_EQ(last_line(one.lines), last_line(writes.lines));
  EXPECT_EQ(count(one.outcome.err, "The same command tries it again"), 1) << one.outcome.err;
  const Run again = alone({});  // there is room now
  EXPECT_EQ(again.outcome.code, 0) << again.outcome.err;
  EXPECT_NE(again.outcome.err.find("the files of epoch 5 could be written now"), std::string::npos)
      << again.outcome.err;
  EXPECT_NE(again.outcome.err.find("those of 5 before it are still missing"), std::string::npos);
  EXPECT_EQ(again.files.at("epoch_5"), writes.files.at("epoch_5"));
}

// Of an epoch whose place others have taken nothing but a warning is due; else the run's end says
// what is missing.
TEST_F(Epochs, LostFilesAreCountedAtTheRunsEnd) {
  const Run later = launched("later", {}, {"fails-at-1"});
  EXPECT_EQ(later.outcome.code, 0) << later.outcome.err;
  EXPECT_EQ(count(later.outcome.err, "the files of 1 epoch could not be written (each"), 1)
      << later.outcome.err;
  const std::string kill = "kill rank=1 txn=" + std::to_string(5 * (kSteps + 2)) + " phase=forward";
  const Run last = launched("last", {"--inject", kill}, {"fails-at-5"});
  EXPECT_EQ(killed_in(last.outcome), 1) << last.outcome.err;
  EXPECT_EQ(last.outcome.code, 1) << last.outcome.err;
  EXPECT_EQ(count(last.outcome.err, "no room for"), 2) << last.outcome.err;  // and once more
  EXPECT_EQ(last_line(last.lines), last_line(later.lines));
  const Run again = launched("last");
  EXPECT_EQ(again.outcome.code, 0) << again.outcome.err;
  EXPECT_EQ(again.files.at("epoch_5"), later.files.at("epoch_5"));
}

}  // namespace
}  // namespace lockstep::test

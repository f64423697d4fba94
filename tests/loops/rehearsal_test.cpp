// What a step's loss must not depend on, and what a loop must not: found before it costs equal
// weights (rehearsal_worker.cpp).
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "support/child.h"
#include "support/output.h"
#include "support/until.h"

namespace lockstep::test {
namespace {

class Rehearsal : public ::testing::Test {
 protected:
  // A new run, with `options` of the launcher's.
  Outcome launched(int workers, const std::string& name, const std::string& rehearse = "",
                   const std::vector<std::string>& options = {}) const {
    std::filesystem::remove_all(folder_ / "run");
    std::vector<std::string> words{LOCKSTEP_PROGRAM, "run", "--standalone", "--nproc-per-node",
                                   std::to_string(workers)};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {REHEARSAL_WORKER, name, folder_ / "run"});
    if (!rehearse.empty()) words.push_back(rehearse);
    return run(words);
  }
  void expect_found(int workers, const std::string& name, const std::string& words) const {
    const Outcome outcome = launched(workers, name);
    const std::string where = name + ", " + std::to_string(workers) + ": " + outcome.err;
    EXPECT_EQ(outcome.code, 2) << where;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << where;
    EXPECT_NE(outcome.err.find("the train state and on its Share alone"), std::string::npos)
        << where;
    EXPECT_EQ(read_text(folder_ / "run/metrics.jsonl"), "") << where;
  }
  void TearDown() override {
    EXPECT_TRUE(processes_with(folder_.path()).empty()) << "a process is left behind";
  }
  TempFolder folder_;
};

TEST_F(Rehearsal, FindsWhatDiffersBetweenWorkers) {
  for (const char* name : {"own-loader", "rank", "context-rank"})
    for (const int workers : {2, 3}) expect_found(workers, name, "step 0: the loss of virtual ");
}

TEST_F(Rehearsal, FindsWhatDiffersFromCallToCall) {
  for (const char* name : {"counter", "clock", "random-device", "engine", "generator"})
    for (const int workers : {1, 2}) expect_found(workers, name, "step 0: the loss of virtual ");
  expect_found(1, "counter", " when it is computed again there");
  expect_found(3, "counter", "of virtual worker 0 is ");
  expect_found(1, "sits-out-at-times", " in rank 0 and none (it took no part) when it is computed");
}

TEST_F(Rehearsal, FindsAGradientThatDiffersByItsName) {
  for (const int workers : {1, 3})
    expect_found(workers, "gradient",
                 "the gradient of 'last.weight' of virtual worker 0 has other");
}

// What makes no difference in the first step: a pool that is not full yet, a mode that an
// evaluation leaves behind, the closure of another optimizer.
TEST_F(Rehearsal, FindsWhatComesLaterInAsManyStepsAsAreAsked) {
  for (const char* name : {"counter-later", "pool", "alternate-by-step-counter", "stays-in-eval"})
    for (const int workers : {1, 2, 3}) {
      const bool modes = name == std::string("stays-in-eval");
      if (workers == 1 && modes) continue;  // the same both times
      const Outcome outcome = launched(workers, name, "10");
      const std::string where = name + (", " + std::to_string(workers)) + ": " + outcome.err;
      EXPECT_EQ(outcome.code, 2) << where;
      EXPECT_NE(outcome.err.find(modes ? "step 2: 'net' is in eval() in rank 0"
                                       : "the train state and on its Share alone"),
                std::string::npos)
          << where;
    }
}

// Its worker's alone: the same in the first step. With more steps no later: whoever repeats a share
// has not done so each time before.
TEST_F(Rehearsal, FindsWhatAShareKeepsInItsWorker) {
  for (const int workers : {1, 2, 3}) {
    for (const char* rehearse : {"", "5"}) {
      const Outcome outcome = launched(workers, "own-pool", rehearse);
      const std::string where = std::to_string(workers) + ": " + outcome.err;
      EXPECT_EQ(outcome.code, 2) << where;
      EXPECT_LE(std::stoi(outcome.err.substr(outcome.err.find(": step ") + 7)), 4) << where;
      EXPECT_NE(outcome.err.find("a pool, a replay buffer"), std::string::npos) << where;
    }
    EXPECT_EQ(launched(workers, "own-pool", "0").code, 0);
  }
}

// Steps in which no share takes part use no rehearsal up, of each update for itself.
TEST_F(Rehearsal, ComesWithTheFirstShareThatTakesPart) {
  for (const char* name : {"warms-up", "warms-up-second"})
    for (const int workers : {1, 3}) {
      const Outcome outcome = launched(workers, name);
      EXPECT_EQ(outcome.code, 2) << name << ": " << outcome.err;
      EXPECT_NE(outcome.err.find("step 3"), std::string::npos) << name << ": " << outcome.err;
      EXPECT_NE(outcome.err.find("the loss of virtual "), std::string::npos) << outcome.err;
    }
  EXPECT_EQ(launched(3, "warms-up", "0").code, 0);
  const std::string whole = hash_in(launched(3, "warms-up-right", "0"));
  for (const char* fault : {"kill rank=1 txn=1 phase=forward", "kill rank=0 txn=3 phase=backward"})
    EXPECT_EQ(hash_in(launched(3, "warms-up-right", "2", {"--inject", fault})), whole) << fault;
}

// Whoever has come in meanwhile, and where all have died, knows that it is to come.
TEST_F(Rehearsal, IsNotForgottenInTheWarmUp) {
  for (const char* fault :
       {"kill rank=1 txn=2 phase=forward", "kill txn=20 phase=forward repeat=3"}) {
    const Outcome outcome =
        launched(3, "warms-up-slow", "", {"--max-restarts", "1", "--inject", fault});
    EXPECT_EQ(outcome.code, 2) << fault << ": " << outcome.err;
    EXPECT_GE(killed_in(outcome), 1) << fault << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("step 60: the loss of virtual "), std::string::npos)
        << fault << ": " << outcome.err;
  }
}

// In the very step; a module to which it is the same is warned of.
TEST_F(Rehearsal, FindsAWorkerWhoseModulesAreInAnotherMode) {
  for (const char* name : {"stays-in-eval", "evaluates-at-2"})
    for (const int workers : {2, 3}) {
      const Outcome outcome = launched(workers, name);
      EXPECT_EQ(outcome.code, 2) << name << ": " << outcome.err;
      EXPECT_NE(outcome.err.find("; the loss of virtual worker "), std::string::npos)
          << name << ": " << outcome.err;
      // Who was about to warn of it may be ended by the error first.
      const std::string said = "step 2: 'net' is in eval() in rank 0, and trains in rank ";
      EXPECT_NE(outcome.err.find(said), std::string::npos) << name << ": " << outcome.err;
    }
  const Outcome gradient = launched(3, "gradient-by-mode");
  EXPECT_EQ(gradient.code, 2) << gradient.err;
  EXPECT_NE(gradient.err.find("step 6: 'net.idle' is in eval() in rank "), std::string::npos)
      << gradient.err;
  EXPECT_NE(gradient.err.find("; the gradient of 'last.weight' of virtual worker "),
            std::string::npos)
      << gradient.err;
  EXPECT_EQ(launched(3, "stays-in-eval", "0").code, 0);
  const Outcome harmless = launched(3, "turns-in-eval");
  EXPECT_EQ(hash_in(harmless), hash_in(launched(3, "turns"))) << harmless.err;
  EXPECT_EQ(count(harmless.err, "'a' is in eval()"), 1) << harmless.err;
}

// The loss is another one because the state is: that is what is told.
TEST_F(Rehearsal, AStateThatDiffersIsToldBeforeALossThatDoes) {
  for (const auto& [name, step] : {std::pair{"pokes-at-4", "step 4: "}, {"pokes", "step 3: "}}) {
    const Outcome outcome = launched(3, name, "10");
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(
        outcome.err.find(step + std::string("the state of virtual worker 1's worker differs")),
        std::string::npos)
        << outcome.err;
  }
}

TEST_F(Rehearsal, CanBeLeftOut) { EXPECT_EQ(launched(2, "counter", "0").code, 0); }

// Batch norm, dropout, momentum; and what is drawn between steps.
TEST_F(Rehearsal, ChangesNothing) {
  for (const char* name : {"right", "accumulates", "ahead", "scaler", "skips"}) {
    const std::string without = hash_in(launched(3, name, "0"));
    for (const auto& [workers, rehearse] :
         {std::pair{3, ""}, std::pair{3, "1000"}, std::pair{1, "1000"}, std::pair{2, "3"}}) {
      const Outcome outcome = launched(workers, name, rehearse);
      EXPECT_EQ(outcome.code, 0) << name << ": " << outcome.err;
      EXPECT_EQ(hash_in(outcome), without) << name << ", " << workers << ", " << rehearse;
    }
  }
  const auto drawn = [](const Outcome& outcome) {
    std::istringstream lines(outcome.out);
    std::string all;
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("drawn ")) all += line + "\n";
    return all;
  };
  const Outcome with = launched(1, "draws"), without = launched(1, "draws", "0");
  EXPECT_EQ(count(with.out, "drawn "), 20) << with.err;
  EXPECT_EQ(drawn(with), drawn(without));
}

// Also in the share that is computed again: virtual worker 0's is rank 1's to repeat.
TEST_F(Rehearsal, DeathsInItDoNotMatter) {
  const std::string whole = hash_in(launched(3, "right"));
  for (const auto& [fault, rehearse] : {std::pair{"kill rank=1 txn=0 phase=data share=0", "1000"},
                                        {"kill rank=1 txn=0 phase=backward share=0", "1000"},
                                        {"kill rank=0 txn=0 phase=forward", "1000"},
                                        {"kill rank=2 txn=0 phase=exchange", "1000"},
                                        {"kill rank=1 txn=0 phase=optimizer", "1000"},
                                        {"kill rank=2 txn=3 phase=backward", "1000"},
                                        // In step 4 virtual worker 0's alone is.
                                        {"kill rank=1 txn=4 phase=backward share=0", ""},
                                        {"kill rank=0 txn=4 phase=exchange", ""},
                                        {"kill rank=2 txn=4 phase=forward", ""}}) {
    const Outcome outcome = launched(3, "right", rehearse, {"--inject", fault});
    EXPECT_EQ(outcome.code, 0) << fault << ": " << outcome.err;
    EXPECT_EQ(killed_in(outcome), 1) << fault << ": " << outcome.err;
    EXPECT_EQ(hash_in(outcome), whole) << fault << ": " << outcome.err;
  }
}

// As the noise of a GAN: drawn between next() and run(), for all shares.
TEST_F(Rehearsal, WhatTheLoopDrawsIsAFunctionOfTheStep) {
  const std::string whole = hash_in(launched(3, "noise"));
  EXPECT_NE(whole, hash_in(launched(3, "right")));
  for (const int workers : {1, 2}) EXPECT_EQ(hash_in(launched(workers, "noise")), whole);
  for (const char* fault :
       {"kill rank=1 txn=3 phase=backward", "kill rank=0 txn=5 phase=forward",
        "kill rank=2 txn=9 phase=optimizer", "kill txn=7 phase=forward repeat=3"}) {
    const Outcome outcome = launched(3, "noise", "", {"--max-restarts", "1", "--inject", fault});
    EXPECT_EQ(outcome.code, 0) << fault << ": " << outcome.err;
    EXPECT_GE(killed_in(outcome), 1) << fault << ": " << outcome.err;
    EXPECT_EQ(hash_in(outcome), whole) << fault << ": " << outcome.err;
  }
}

class OneOptimizer : public Rehearsal {};

// A replacement comes in at the loop's top: at an odd step it gives the wrong one.
TEST_F(OneOptimizer, AStepHasOneWhoeverComesIn) {
  const std::string whole = hash_in(launched(3, "alternate-by-step"));
  EXPECT_EQ(hash_in(launched(3, "alternate")), whole);
  int found = 0;
  for (const int workers : {2, 3})
    for (const char* phase : {"data", "backward", "optimizer"})
      for (const char* txn : {"100", "101"}) {
        if (workers == 3 && txn == std::string("100")) continue;
        const std::string fault = std::string("kill rank=1 phase=") + phase + " txn=" + txn;
        const Outcome outcome = launched(workers, "alternate", "", {"--inject", fault});
        EXPECT_EQ(killed_in(outcome), 1) << fault << ": " << outcome.err;
        if (outcome.code == 0) {
          EXPECT_EQ(hash_in(outcome), whole) << fault << ": " << outcome.err;
          continue;
        }
        ++found;
        EXPECT_EQ(outcome.code, 2) << fault << ": " << outcome.err;
        for (const char* words : {"'of_a' in the worker of", "'of_b' in the worker of",
                                  "is a function of step.global_step()"})
          EXPECT_NE(outcome.err.find(words), std::string::npos) << fault << ": " << outcome.err;
      }
  EXPECT_GT(found, 0);
  const Outcome right =
      launched(2, "alternate-by-step", "", {"--inject", "kill rank=1 txn=101 phase=backward"});
  EXPECT_EQ(hash_in(right), whole) << right.err;
}

// Neither has the other's parameters in its loss: what an optimizer does not have is not asked for.
TEST_F(OneOptimizer, AStepAsksForItsOwnParametersAlone) {
  for (const std::string name : {"turns", "turns-accumulated"}) {
    const Outcome whole = launched(3, name, "1000");
    EXPECT_EQ(whole.code, 0) << whole.err;
    EXPECT_EQ(count(whole.out, "a gradient is left"), 0);
    for (const int workers : {1, 2})
      EXPECT_EQ(hash_in(launched(workers, name)), hash_in(whole)) << name;
    for (const char* fault :
         {"kill rank=1 txn=2 phase=backward", "kill rank=0 txn=3 phase=forward",
          "kill rank=2 txn=4 phase=exchange", "kill rank=1 txn=5 phase=optimizer",
          "kill txn=6 phase=forward repeat=3"}) {
      const Outcome outcome = launched(3, name, "", {"--max-restarts", "1", "--inject", fault});
      EXPECT_EQ(outcome.code, 0) << fault << ": " << outcome.err;
      EXPECT_GE(killed_in(outcome), 1) << fault << ": " << outcome.err;
      EXPECT_EQ(hash_in(outcome), hash_in(whole)) << fault << ": " << outcome.err;
    }
  }
  EXPECT_EQ(hash_in(launched(3, "turns-unused")), hash_in(launched(3, "turns")));
}

// Their sums have no bucket in common but one: without a look at the records they would wait for
// each other for ever.
TEST_F(OneOptimizer, WorkersThatDifferAreToldBeforeSumsAreThere) {
  for (const int workers : {2, 3}) {
    const Outcome outcome = launched(workers, "turns-by-rank");
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    for (const char* words : {"step 5: run() was given", "'of_a' in the worker of virtual worker 0",
                              "'of_b' in the worker of virtual worker "})
      EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  }
}

// Nobody is left to compare with: the checkpoint, of an odd step, knows.
TEST_F(OneOptimizer, ACheckpointKnowsWhichOneComesNext) {
  const std::vector<std::string> all_die{"--max-restarts", "1", "--inject",
                                         "kill txn=60 phase=forward repeat=2"};
  for (const int workers : {1, 2}) {
    const Outcome wrong = launched(workers, "alternate", "", all_die);
    if (wrong.err.find("resuming from") == std::string::npos) continue;  // before its first one
    EXPECT_EQ(wrong.code, 2) << wrong.err;
    EXPECT_NE(wrong.err.find("step 33: run() was given 'of_b' in the start before, and 'of_a' in "
                             "this one"),
              std::string::npos)
        << wrong.err;
  }
}

// As above, after a stop in order: the loop is asked once more, so that the checkpoint knows.
TEST_F(OneOptimizer, AStoppedRunGoesOnAsItBegan) {
  const std::string whole = hash_in(launched(2, "alternate-by-step"));
  for (const char* name : {"alternate-by-step-slow", "alternate-slow"}) {
    std::filesystem::remove_all(folder_ / "run");
    const std::vector<std::string> command{
        LOCKSTEP_PROGRAM, "run", "--standalone", "--nproc-per-node", "2",
        REHEARSAL_WORKER, name,  folder_ / "run"};
    Child job(command);
    ASSERT_TRUE(until([&] { return count(read_text(folder_ / "run/metrics.jsonl"), "\n") > 9; }));
    job.send(SIGTERM);
    EXPECT_EQ(job.wait().code, 143) << job.err();
    const Outcome again = run(command);
    const bool right = again.code == 0 && hash_in(again) == whole;
    if (right) continue;
    EXPECT_STREQ(name, "alternate-slow") << again.err;
    EXPECT_EQ(again.code, 2) << again.err;
    EXPECT_NE(again.err.find("'of_b' in the start before, and 'of_a' in this one"),
              std::string::npos)
        << again.err;
  }
}

class Buffers : public Rehearsal {};

TEST_F(Buffers, WhatIsWrittenOutsideOfTheClosureLasts) {
  for (const char* name : {"count-in-step", "count-before", "count-after"}) {
    const Outcome outcome = launched(2, name);
    EXPECT_EQ(outcome.code, 0) << name << ": " << outcome.err;
    EXPECT_EQ(count(outcome.out, "count 20\n"), 2) << name << ": " << outcome.out;
    EXPECT_EQ(count(outcome.out, "another step"), 0) << outcome.out;
  }
}

TEST_F(Buffers, AChangeInOneWorkerIsFoundSoonAndNamed) {
  const Outcome outcome = launched(3, "pokes");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("step 4: the state of virtual worker 1's worker differs from that of "
                             "virtual worker 0's in the parameter 'last.bias'"),
            std::string::npos)
      << outcome.err;
}

TEST_F(Rehearsal, ARunThatDoesNotUseItsDataSetIsToldSoOnce) {
  const Outcome outcome = launched(3, "unused-data");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count(outcome.err, "no share has asked for its batch"), 1) << outcome.err;
  EXPECT_EQ(count(launched(3, "right").err, "no share has asked"), 0);
}

// Its tensors: StepLoop.
TEST_F(Rehearsal, FindsALossThatChangesATextOfTheState) {
  const Outcome outcome = launched(2, "writes-text");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("the closure has changed the text 'world'"), std::string::npos)
      << outcome.err;
}

TEST_F(Rehearsal, ATensorOfTheStateThatWasLetGoOfIsToldOnce) {
  const Outcome outcome = launched(3, "lets-go");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count(outcome.err, "the program has let go of 'average.bias'"), 1) << outcome.err;
  EXPECT_EQ(count(outcome.err, "let go of"), 1) << outcome.err;
  EXPECT_EQ(count(launched(3, "right").err, "let go of"), 0);
}

// What the module has registered, and the state has, is the earlier one.
TEST_F(Rehearsal, AModulesMemberThatIsAssignedAnewIsToldOnce) {
  for (const auto& [name, words] : {std::pair{"assigns-weight", "let go of 'spare.weight'"},
                                    {"assigns-buffer", "let go of 'count'"},
                                    {"assigns-module", "let go of 'net.idle'"},
                                    {"assigns-trained", "let go of 'last.bias'"}}) {
    const Outcome outcome = launched(2, name);
    // Its loss does not use the parameter any more.
    EXPECT_EQ(outcome.code, name == std::string("assigns-trained") ? 2 : 0) << outcome.err;
    // Who was about to say it may be ended by the other one's error first.
    const int said = count(outcome.err, words);
    EXPECT_TRUE(said == 1 || (said == 0 && outcome.code == 2)) << name << ": " << outcome.err;
    EXPECT_EQ(count(outcome.err, "let go of"), said) << name << ": " << outcome.err;
  }
}

TEST_F(Rehearsal, SparseGradientsAreRefused) {
  Outcome outcome = launched(2, "sparse");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("'embedding.weight' has sparse gradients"), std::string::npos)
      << outcome.err;
  outcome = launched(2, "sparse-by-call");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("the gradient of 'embedding.weight' is sparse"), std::string::npos)
      << outcome.err;
}

TEST_F(Rehearsal, AFinishedRunKeepsItsLastCheckpointAlone) {
  EXPECT_EQ(launched(2, "alternate-by-step").code, 0);
  std::string names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "run/checkpoints"))
    names += entry.path().filename().string() + " ";
  EXPECT_EQ(count(names, "step-"), 1) << names;
  EXPECT_EQ(count(names, "step-00000300"), 1) << names;
}

}  // namespace
}  // namespace lockstep::test

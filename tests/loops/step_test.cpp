// Step as users meet it: what it refuses, and what comes after the run (step_worker.cpp).
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <sstream>

#include "support/child.h"
#include "support/output.h"
#include "support/until.h"

namespace lockstep::test {
namespace {

class StepLoop : public ::testing::Test {
 protected:
  std::vector<std::string> command(const std::string& name,
                                   const std::vector<std::string>& options = {}) const {
    std::vector<std::string> words{LOCKSTEP_PROGRAM, "run", "--standalone", "--nproc-per-node",
                                   "3"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {STEP_WORKER, name, folder_ / "run"});
    return words;
  }
  Outcome launched(const std::string& name) const { return run(command(name)); }
  // A new run with the deaths that `fault` says, none if it is empty; after that of all in
  // transaction 31 it goes on from the checkpoint that step_worker has waited for.
  Outcome faulted(const std::string& name, const std::string& fault) const {
    std::filesystem::remove_all(folder_ / "run");
    Outcome outcome = run(command(name, {"--max-restarts", "1", "--inject", fault}));
    const std::string where = name + ", " + fault + ": " + outcome.err;
    EXPECT_EQ(killed_in(outcome), fault.empty() ? 0 : fault.ends_with("repeat=3") ? 3 : 1) << where;
    EXPECT_EQ(count(outcome.err, "resuming from '" + folder_ / "run/checkpoints/step-00000030'"),
              fault.starts_with("kill txn=31") ? 1 : 0)
        << where;
    return outcome;
  }
  void expect_refused(const char* name, const char* words) const {
    const Outcome outcome = launched(name);
    EXPECT_EQ(outcome.code, 2) << name << ": " << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << name << ": " << outcome.err;
  }
  void TearDown() override {
    EXPECT_TRUE(processes_with(folder_.path()).empty()) << "a process is left behind";
  }
  TempFolder folder_;
};

TEST_F(StepLoop, WorkersThatStartFromDifferentStatesAreTold) {
  expect_refused("weight-by-rank", "initial_weights_sha256: the first worker has '");
  for (const auto& [name, fault] :
       {std::pair{"text-by-rank", ""}, std::pair{"tensor-by-rank", ""},
        std::pair{"loads-by-rank", "kill txn=31 phase=forward repeat=3"}}) {
    const Outcome three = faulted(name, fault);
    EXPECT_EQ(three.code, 2) << name << ": " << three.err;
    EXPECT_EQ(count(three.err, "start from different states"), 1) << name << ": " << three.err;
  }
}

TEST_F(StepLoop, AParameterFrozenInOneWorkerAloneIsTold) {
  const Outcome three = launched("frozen-by-rank");
  EXPECT_EQ(three.code, 2) << three.err;
  EXPECT_NE(three.err.find("bias is frozen"), std::string::npos) << three.err;
}

TEST_F(StepLoop, ParametersChangedInARunAreTold) {
  expect_refused("adds-late", "'late' was added");
  std::filesystem::remove_all(folder_ / "run");
  const Outcome frozen = launched("frozen-late");  // phases_test has more of them
  EXPECT_EQ(frozen.code, 0) << frozen.err;
}

TEST_F(StepLoop, NextAndRunTakeTurns) {
  expect_refused("next-twice", "next() again before run()");
  expect_refused("run-twice", "run() without next()");
}

TEST_F(StepLoop, UnusedParametersAreNamedOrCountAsZeros) {
  expect_refused("unused", "no gradient from the loss of virtual worker ");
  expect_refused("unused", ": bias. Use them in the forward; or freeze them");
  std::filesystem::remove_all(folder_ / "run");
  const Outcome allowed = launched("unused-allowed");
  EXPECT_EQ(allowed.code, 0) << allowed.err;
}

TEST_F(StepLoop, ALossThatIsNotReducedIsRefused) {
  expect_refused("unreduced",
                 "must return one number that depends on the model; got 2 elements; return");
  expect_refused("detached", "depends on the model; got one without a graph");
}

TEST_F(StepLoop, WhatDoesNotBelongIntoAClosureIsRefused) {
  for (const auto& [name, message] :
       {std::pair{"closure-zero-grad", "zero_grad() in a step's closure, which only returns"},
        {"closure-step", "an optimizer's step() in a step's closure, which only returns"},
        {"closure-clips", "the loss; set RunOptions::clip_grad_norm"},
        {"closure-scales", "step.run() does it with the scaler in the train state"},
        {"closure-backward", "backward() in a step's closure, which only returns the loss"},
        {"closure-writes", "the closure has changed the parameter 'weight', as an optimizer's"},
        {"closure-writes-data", "the closure has changed the parameter 'bias'"},
        {"closure-writes-moments", "the closure has changed the tensor 'lr' (of an optimizer"}}) {
    SCOPED_TRACE(name);
    std::filesystem::remove_all(folder_ / "run");
    expect_refused(name, message);
  }
}

TEST_F(StepLoop, WhatAClosurePutsBackIsNoChange) {
  const Outcome plain = launched("plain");
  std::filesystem::remove_all(folder_ / "run");
  const Outcome puts_back = launched("puts-back");
  EXPECT_EQ(puts_back.code, 0) << puts_back.err;
  EXPECT_EQ(hash_in(puts_back), hash_in(plain));
}

TEST_F(StepLoop, AScheduleThatIsNotInTheStateIsRefused) {
  expect_refused("schedule-left-out",
                 "has a scheduler (StepLR step_size=2 gamma=0.5) that is not in the train state");
}

// The shares' means are 8 and (2 + 6) / 2, and each of them counts for a half.
TEST_F(StepLoop, ADamagedSampleIsTheNextSoundOne) {
  const Outcome outcome = run({STEP_WORKER, "short-share", folder_ / "run"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count(outcome.out, "weight -5.5\n"), 1) << outcome.out;
  const std::string metrics = read_text(folder_ / "run/metrics.jsonl");
  EXPECT_EQ(count(metrics, "\"samples\":4"), 1) << metrics;
  const std::string ledger = read_text(folder_ / "run/ledger.jsonl");
  EXPECT_EQ(count(ledger, "\"ids\":[[0,3],[1,3]],\"replaced\":[[2,3]]}"), 1) << ledger;
  EXPECT_EQ(count(outcome.err, "left out as damaged: at least 1 sample of the training set"), 1)
      << outcome.err;
}

// Each step's word is said once; also after the first of the first start is dead.
TEST_F(StepLoop, OneOfTheLiveMembersIsTheFirst) {
  const auto said = [](const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::map<int, int> times;  // by step
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("before step ")) ++times[std::stoi(line.substr(12))];
    return times;
  };
  const auto whole = said(launched("says"));
  EXPECT_EQ(whole.size(), 40U * 3);
  for (const auto& [step, times] : whole) EXPECT_EQ(times, 1) << step;
  for (const char* fault :
       {"kill rank=0 txn=7 phase=forward", "kill rank=0 txn=7 phase=optimizer"}) {
    const auto others = said(faulted("says", fault));
    EXPECT_GE(others.size(), whole.size() - 1) << fault;  // that of the moment of its death
    EXPECT_EQ(others.at(60), 1) << fault;
    EXPECT_EQ(others.at(119), 1) << fault;
  }
}

TEST_F(StepLoop, RatesThatDifferAreFoundInTheSameStep) {
  expect_refused("rate-by-rank", "step 5: the learning rate is");
  std::filesystem::remove_all(folder_ / "run");
  expect_refused("rate-by-rank-at-first", "step 0: the learning rate is");
}

TEST_F(StepLoop, AStateChangedOutsideOfAStepIsFoundSoon) {
  expect_refused("pokes",
                 "step 16: the state of virtual worker 1's worker differs from that of virtual "
                 "worker 0's in the parameter 'weight'");
}

TEST_F(StepLoop, AShareEndsTheRunEarlyForAll) {
  const Outcome whole = launched("ends");
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(whole.out.find("The run ends here, at step 2 of 3 of epoch 3 (by the program)"),
            std::string::npos)
      << whole.out;
  EXPECT_EQ(count(read_text(folder_ / "run/metrics.jsonl"), "\n"), 8);
  const Outcome again = launched("ends");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_NE(again.err.find("was ended by its program after 8 steps"), std::string::npos)
      << again.err;
  EXPECT_EQ(count(again.out, last_line(whole.out.substr(0, whole.out.find("\nafter")))), 1);
}

// Whoever said it, and whoever comes new: all end where it was said.
TEST_F(StepLoop, AnEarlyEndSurvivesDeaths) {
  const std::string whole = hash_in(launched("ends"));
  for (const char* fault :
       {"kill rank=1 txn=7 phase=backward", "kill rank=1 txn=7 phase=exchange",
        "kill rank=1 txn=7 phase=optimizer", "kill rank=0 phase=done", "kill txn=7 repeat=3"}) {
    const Outcome outcome = faulted("ends", fault);
    EXPECT_EQ(outcome.code, 0) << fault << ": " << outcome.err;
    EXPECT_EQ(hash_in(outcome), whole) << fault << ": " << outcome.err;
  }
}

// The schedule as lr_scheduler.h has it: at an epoch's start, where a newcomer takes over, and from
// the checkpoint that was taken there (30 = 3 steps * 10 epochs), before the loop's own code.
TEST_F(StepLoop, AScheduleIsTheSameWhoeverComesAndGoes) {
  const std::string metrics = folder_ / "run/metrics.jsonl";
  EXPECT_EQ(launched("schedule").code, 0);
  const std::string whole = read_text(metrics);
  EXPECT_EQ(count(whole, "\"lr\":0.1"), 6) << whole;
  EXPECT_EQ(count(whole, "\"lr\":0.05"), 6) << whole;
  EXPECT_EQ(count(whole, "\"lr\":0.025"), 6) << whole;
  for (const char* fault : {"kill rank=1 txn=5 phase=forward", "kill rank=2 txn=6 phase=data",
                            "kill txn=31 phase=forward repeat=3", "kill txn=30 repeat=3"}) {
    const Outcome outcome = faulted("schedule", fault);
    EXPECT_EQ(outcome.code, 0) << fault << ": " << outcome.err;
    EXPECT_EQ(read_text(metrics), whole) << fault << ": " << outcome.err;
  }
}

TEST_F(StepLoop, AccumulatedStepsAreTheSameWhoeverComesAndGoes) {
  const Outcome alone = run({STEP_WORKER, "accumulates", folder_ / "alone"});
  ASSERT_EQ(alone.code, 0) << alone.err;
  const std::string ledger = read_text(folder_ / "alone/ledger.jsonl");
  EXPECT_EQ(count(ledger, "\n"), 80) << ledger;
  EXPECT_EQ(hash_in(launched("accumulates")), hash_in(alone));
  EXPECT_EQ(read_text(folder_ / "run/ledger.jsonl"), ledger);
  for (const char* fault :
       {"kill rank=1 txn=6 phase=data", "kill rank=1 txn=6 phase=backward",
        "kill rank=2 txn=7 phase=exchange", "kill txn=31 phase=forward repeat=3"}) {
    const Outcome outcome = faulted("accumulates-ahead", fault);
    EXPECT_EQ(outcome.code, 0) << fault << ": " << outcome.err;
    EXPECT_EQ(hash_in(outcome), hash_in(alone)) << fault << ": " << outcome.err;
    EXPECT_EQ(read_text(folder_ / "run/ledger.jsonl"), ledger) << fault;
  }
}

// What a data set draws from PyTorch's own generator, as people do.
TEST_F(StepLoop, ARandomDataSetIsTheSameWhoeverComesAndGoes) {
  const Outcome alone = run({STEP_WORKER, "draws", folder_ / "alone"});
  ASSERT_EQ(alone.code, 0) << alone.err;
  EXPECT_EQ(hash_in(launched("draws")), hash_in(alone));
  for (const char* fault : {"kill rank=1 txn=6 phase=data", "kill rank=2 txn=7 phase=exchange",
                            "kill txn=31 phase=forward repeat=3"}) {
    const Outcome outcome = faulted("draws", fault);
    EXPECT_EQ(hash_in(outcome), hash_in(alone)) << fault << ": " << outcome.err;
  }
  std::filesystem::remove_all(folder_ / "run");
  expect_refused("draws-ahead", "the data set draws from PyTorch's default generator");
}

TEST_F(StepLoop, AnotherAccumulationIsAnotherRun) {
  Outcome outcome =
      run(command("accumulates", {"--max-restarts", "0", "--inject", "kill txn=31 repeat=3"}));
  EXPECT_NE(outcome.code, 0);
  outcome = launched("accumulates-3");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("accumulation_steps was 2, now it is 3"), std::string::npos)
      << outcome.err;
}

TEST_F(StepLoop, ALoopThatJustReturnsIsToldHowToEndARun) {
  const Outcome outcome = launched("returns");
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(count(outcome.err, "left before the run's end (exit 0 after epoch 2, step 0)"), 1)
      << outcome.err;
  EXPECT_EQ(count(outcome.err, "Share::end_run()"), 1) << outcome.err;
  EXPECT_EQ(count(outcome.err, "replacement is started"), 0) << outcome.err;
  EXPECT_EQ(count(outcome.err, "crashed"), 0) << outcome.err;
}

TEST_F(StepLoop, ALoopThatJustReturnsIsToldSoWithoutTheLauncherToo) {
  const Outcome outcome = run({STEP_WORKER, "returns", folder_ / "run"});
  EXPECT_EQ(count(outcome.err, "left the run before its end, after 7 of 320 steps"), 1)
      << outcome.err;
  for (const char* name : {"ends", "throws", "nan"}) {
    const Outcome other = run({STEP_WORKER, name, folder_ / name});
    EXPECT_EQ(count(other.err, "before its end"), 0) << name << ": " << other.err;
  }
}

TEST_F(StepLoop, AnErrorOfTheLossIsToldOnceAndWhere) {
  const Outcome outcome = launched("throws");
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_EQ(count(outcome.err, "no such class"), 1) << outcome.err;
  EXPECT_EQ(count(outcome.err, "epoch 1, step 2, virtual worker "), 1) << outcome.err;
  EXPECT_EQ(count(outcome.err, "replacement is started"), 0) << outcome.err;
  EXPECT_EQ(count(outcome.err, "incident"), 0) << outcome.err;
  EXPECT_EQ(count(outcome.err, "\n"), 1 + 2) << outcome.err;  // the launcher's first
}

TEST_F(StepLoop, ACrashOfTheLossIsToldWithItsPlace) {
  const Outcome outcome = launched("crashes");
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("died (SIGSEGV) while computing virtual worker "), std::string::npos)
      << outcome.err;
  EXPECT_EQ(count(outcome.err, " of epoch 1, step 2, phase forward"), 1) << outcome.err;
  EXPECT_EQ(count(outcome.err, "replacement is started"), 0) << outcome.err;
}

TEST_F(StepLoop, ALossThatIsNoNumberIsToldOnce) {
  const Outcome outcome = launched("nan");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count(outcome.out, "Warning: "), 1) << outcome.out;
  EXPECT_NE(outcome.out.find("Warning: Epoch [2/40], Step [2/3]: the loss of virtual worker 1 is "
                             "nan; training goes on\n"),
            std::string::npos)
      << outcome.out;
}

TEST_F(StepLoop, AGradientThatIsNoNumberIsToldByName) {
  const Outcome outcome = launched("bad-gradient");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const auto gradient = outcome.out.find(
      "Warning: Epoch [2/40], Step [2/3]: the gradient of 'weight' is not finite; "
      "training goes on\n");
  const auto loss = outcome.out.find("Warning: Epoch [2/40], Step [3/3]: the loss of virtual ");
  EXPECT_TRUE(gradient < loss && loss != std::string::npos) << outcome.out;
  EXPECT_EQ(count(outcome.out, "Warning: "), 2) << outcome.out;
}

// A step that is left out is one at rate 0: also if somebody dies in it.
TEST_F(StepLoop, WhatIsNoNumberCanBeLeftOut) {
  const std::string expected = hash_in(launched("no-update"));
  for (const char* name : {"nan-skip", "bad-gradient-skip"})
    for (const char* fault :
         {"", "kill rank=1 txn=4 phase=backward", "kill rank=0 txn=4 phase=exchange",
          "kill rank=2 txn=4 phase=optimizer"}) {
      const Outcome outcome = faulted(name, fault);
      EXPECT_EQ(outcome.code, 0) << name << ", " << fault << ": " << outcome.err;
      EXPECT_EQ(hash_in(outcome), expected) << name << ", " << fault << ": " << outcome.err;
      EXPECT_EQ(count(outcome.out, "the update is left out (--on-nan skip)"), 1) << outcome.out;
      const std::string metrics = read_text(folder_ / "run/metrics.jsonl");
      EXPECT_EQ(count(metrics, "\"skipped\":true"), 1) << metrics;
      EXPECT_NE(read_text(folder_ / "run/manifest.json").find("\"on_nan\":\"skip\""),
                std::string::npos);
    }
}

TEST_F(StepLoop, WhatIsNoNumberCanEndTheRun) {
  for (const auto& [name, what] :
       {std::pair{"nan-stop", "the loss of virtual worker 1 is nan"},
        std::pair{"bad-gradient-stop", "the gradient of 'weight' is not finite"}})
    for (const char* fault : {"", "kill rank=1 txn=4 phase=backward"}) {
      const Outcome outcome = faulted(name, fault);
      EXPECT_EQ(outcome.code, 65) << name << ", " << fault << ": " << outcome.err;
      EXPECT_EQ(count(outcome.err, std::string("step 4 (epoch 1, step 1): ") + what +
                                       "; stopped before its update (--on-nan stop)"),
                1)
          << outcome.err;
      EXPECT_EQ(count(read_text(folder_ / "run/metrics.jsonl"), "\n"), 4);
    }
}

TEST_F(StepLoop, AProgramHasOneRun) { expect_refused("second-run", "a program has one run"); }

TEST_F(StepLoop, AProgramHasOneInit) { expect_refused("second-init", "init() was called before"); }

TEST_F(StepLoop, SettingsThatPyTorchRefusesAreRefused) {
  expect_refused("bad-momentum", "Invalid momentum value: -1");
}

TEST_F(StepLoop, FinishedIsSaidOnceAndWhatComesAfterRunsToItsEnd) {
  const Outcome outcome = run(command("long-after", {"--shutdown-timeout", "0.2"}));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count(outcome.out, "finished in rank"), 1) << outcome.out;
  EXPECT_EQ(count(outcome.out, "the end\n"), 3) << outcome.out;
}

TEST_F(StepLoop, AnErrorAfterTheRunIsTheProgramsEnd) {
  const Outcome outcome = launched("fails-after");
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("the export went wrong"), std::string::npos) << outcome.err;
}

TEST_F(StepLoop, AnErrorInOnFinishedIsTheRunsEnd) {
  const Outcome outcome = launched("export-fails");
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  EXPECT_NE(outcome.err.find("no room for the export"), std::string::npos) << outcome.err;
}

TEST_F(StepLoop, WhoIsTakenOutDoesNotComeToTheCodeAfterTheRun) {
  Child job(command("slow"));
  Outcome scaled;
  EXPECT_TRUE(until([&] {  // the launcher can be asked
    scaled = run({LOCKSTEP_PROGRAM, "scale", folder_ / "run", "1"});
    return scaled.code == 0;
  })) << scaled.err;
  const Outcome outcome = job.wait();
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count(outcome.out, "after the run"), 1) << outcome.out;
  EXPECT_EQ(count(outcome.out, "finished in rank"), 1) << outcome.out;
}

}  // namespace
}  // namespace lockstep::test

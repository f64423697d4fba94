// Workers that come in and go, and what they compare with the others (rehearsal_worker.cpp).
#include <gtest/gtest.h>

#include <filesystem>

#include "support/child.h"
#include "support/output.h"
#include "support/until.h"
#include "worker_run.h"

namespace lockstep::test {
namespace {

class ComeAndGo : public WorkerRun {
 protected:
  ComeAndGo() : WorkerRun(REHEARSAL_WORKER) {}
};

// A target network, a replay buffer, a mode or an environment that only those have who were there
// from the start: told before what the newcomer computes counts.
TEST_F(ComeAndGo, ANewcomersFirstSharesAreComparedWithTheOthers) {
  const std::vector<std::string> dies{"--inject", "kill rank=1 txn=6 phase=forward"};
  for (const auto& [name, words] :
       {std::pair{"joined-target", "the loss of virtual worker "},
        {"joined-target-second", "the loss of virtual worker "},
        {"joined-target-sits", "the loss of virtual worker 2 is "},
        {"joined-target-dies", "the loss of virtual worker "},
        {"joined-gradient", " has other bits in rank 0 than in rank 2, "},
        {"joined-replay", " and none (it took no part) in rank 2, "},
        {"joined-eval", ": 'net' is in eval() in rank 0, and trains in rank 2, which has just "},
        {"joined-world",
         "the train states differ: the buffer 'count' has other bits in rank 0 than in "},
        {"joined-behind", "the train states differ: the tensor 'average.bias' "},
        {"joined-hook",
         "the train states differ: the buffer 'count' has other bits in rank 0 than in "}}) {
    const Outcome outcome = launched(3, name, dies);
    EXPECT_EQ(outcome.code, 2) << name << ": " << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << name << ": " << outcome.err;
    EXPECT_NE(outcome.err.find(", which has just joined the run"), std::string::npos)
        << name << ": " << outcome.err;
    const auto at = outcome.err.find(": step ");
    ASSERT_NE(at, std::string::npos) << name << ": " << outcome.err;
    const int step = std::stoi(outcome.err.substr(at + 7));
    EXPECT_LE(count(read_text(folder_ / "run/ledger.jsonl"), "\n"), step) << name;
    EXPECT_EQ(count(outcome.out, "first step " + std::to_string(step) + "\n"), 1)
        << name << ": " << outcome.out << outcome.err;
    EXPECT_EQ(killed_in(outcome), name == std::string("joined-target-dies") ? 2 : 1) << outcome.err;
    const bool hook = name == std::string("joined-hook"),
               behind = name == std::string("joined-behind");
    const bool state = hook || behind || name == std::string("joined-world");
    EXPECT_EQ(count(outcome.err, "behind run(), where a newcomer misses the step"), state ? 1 : 0)
        << name << ": " << outcome.err;
    EXPECT_EQ(count(outcome.err, "first:\n  - a hook (on_update()) that reads what is not in the "),
              hook ? 1 : 0)
        << name << ": " << outcome.err;
  }
  std::filesystem::remove_all(folder_ / "run");
  EXPECT_EQ(again(3, "joined-target", dies, {"0"}).code, 0);
  const std::string whole = hash_in(launched(3, "joined"));
  for (const int workers : {2, 3})
    for (const char* fault : {"kill rank=1 txn=6 phase=forward",
                              "kill rank=1 txn=6 phase=forward; kill rank=0 txn=50 phase=backward"})
      EXPECT_EQ(hash_in(launched(workers, "joined", {"--inject", fault})), whole) << fault;
}

// Each of them has an older one for a judge, whoever sits out; also where it has died by then.
TEST_F(ComeAndGo, NewcomersDoNotVouchForEachOther) {
  for (const char* txn : {"36", "38", "40", "42"}) {
    const std::string fault = std::string("kill rank=1 txn=") + txn + "; kill rank=2 txn=" + txn;
    const Outcome outcome = launched(3, "joined-target-sits", {"--inject", fault});
    EXPECT_EQ(outcome.code, 2) << fault << ": " << outcome.err;
    EXPECT_EQ(killed_in(outcome), 2) << fault << ": " << outcome.err;
    EXPECT_NE(outcome.err.find(", which has just joined the run"), std::string::npos)
        << fault << ": " << outcome.err;
  }
  const Outcome fallen =
      launched(2, "joined-target-falls", {"--inject", "kill rank=1 txn=6 phase=forward"});
  EXPECT_EQ(fallen.code, 2) << fallen.err;
  EXPECT_NE(fallen.err.find(": the loss of virtual worker 3 is "), std::string::npos) << fallen.err;
  EXPECT_NE(fallen.err.find(" in rank 1, which has died since, and "), std::string::npos)
      << fallen.err;
}

// As long as no share of its takes part it has proved nothing, however many steps that are.
TEST_F(ComeAndGo, ANewcomerIsUnprovedUntilItTakesPart) {
  const std::string whole = hash_in(launched(2, "joined-warm-up"));
  const Outcome outcome =
      launched(2, "joined-warm-up",
               {"--inject", "kill rank=1 txn=6 phase=forward; kill rank=0 txn=36 phase=forward"});
  EXPECT_EQ(killed_in(outcome), 2) << outcome.err;
  EXPECT_EQ(count(outcome.err, "step 36: this worker joined the run with step "), 1) << outcome.err;
  EXPECT_EQ(hash_in(outcome), whole) << outcome.err;
}

// It is what later ones are compared with. A right program goes on as if nothing had happened.
TEST_F(ComeAndGo, ANewcomerThatNobodyIsLeftToCompareWithIsTold) {
  const std::string told =
      "and all that were there before it have died before one of its shares could be compared with "
      "theirs";
  const std::vector<std::string> dies{"--inject", "kill rank=1 txn=6 phase=forward"};
  const std::string whole = hash_in(launched(2, "joined"));
  const Outcome outcome = launched(2, "joined-alone", dies);
  EXPECT_EQ(killed_in(outcome), 2) << outcome.err;
  EXPECT_EQ(count(outcome.err, told), 1) << outcome.err;
  EXPECT_EQ(hash_in(outcome), whole) << outcome.err;
  std::filesystem::remove_all(folder_ / "run");
  EXPECT_EQ(count(again(2, "joined-alone", dies, {"0"}).err, told), 0);  // nothing is promised
}

// Also from one update of a step to the next: who repeats it in the second has not in the first.
TEST_F(ComeAndGo, WhatAShareKeepsWithinAStepIsFound) {
  for (const int workers : {2, 3}) {
    const Outcome outcome = launched(workers, "rollout-second");
    const std::string where = std::to_string(workers) + ": " + outcome.err;
    EXPECT_EQ(outcome.code, 2) << where;
    EXPECT_NE(outcome.err.find("step 1, update 1: the loss of virtual worker 2 is "),
              std::string::npos)
        << where;
  }
}

// Between the steps in which it is looked for: when the share moves, by what the dead has left.
TEST_F(ComeAndGo, AnHeirIsComparedWithTheDead) {
  const Outcome outcome =
      launched(2, "own-pool-later",
               {"--max-replacements", "0", "--inject", "kill rank=0 txn=12 phase=exchange"});
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_EQ(killed_in(outcome), 1) << outcome.err;
  EXPECT_NE(outcome.err.find(": the loss of virtual worker 0 is "), std::string::npos)
      << outcome.err;
  for (const char* words : {" in rank 0, which has died since, ", " in rank 1, which took it over"})
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
}

// It finds its last step's notes in the midst of being written over, and differences that are none.
TEST_F(ComeAndGo, AWorkerThatLeavesLateEndsNothing) {
  for (const char* name : {"leaves-modes", "leaves-flags"}) {
    std::filesystem::remove_all(folder_ / "run");
    Child job(command(
        3, name, {"--stop-grace", "60", "--inject", "stop rank=2 phase=exchange repeat=100000"}));
    ASSERT_TRUE(until([&] { return count(read_text(folder_ / "run/metrics.jsonl"), "\n") > 9; }));
    EXPECT_EQ(run({LOCKSTEP_PROGRAM, "scale", folder_ / "run", "2"}).code, 0);
    const Outcome outcome = job.wait();
    EXPECT_EQ(outcome.code, 0) << name << ": " << outcome.err;
    EXPECT_EQ(count(outcome.err, "is in eval()"), 0) << name << ": " << outcome.err;
    EXPECT_EQ(count(outcome.err, "died"), 0) << name << ": " << outcome.err;  // it has no result
  }
}

}  // namespace
}  // namespace lockstep::test

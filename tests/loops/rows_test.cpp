// What shares carry to their next step (rows_worker.cpp): V = 4, each step's row from the last.
#include <gtest/gtest.h>

#include <filesystem>
#include <utility>

#include "support/child.h"
#include "support/output.h"
#include "worker_run.h"

namespace lockstep::test {
namespace {

class Rows : public WorkerRun {
 protected:
  Rows() : WorkerRun(ROWS_WORKER) {}
  // Weights, and all of the state, in which the rows are.
  static std::string state_in(const Outcome& outcome) {
    const auto at = outcome.out.find("counts ");
    return hash_in(outcome) +
           (at == std::string::npos ? "" : outcome.out.substr(at, outcome.out.find('\n', at) - at));
  }
};

TEST_F(Rows, AreTheSameWhoeverComesAndGoes) {
  for (const char* name :
       {"right", "updates", "accumulates", "resets", "left-out", "nan-skip", "scaler", "trainer"}) {
    const Outcome whole = launched(4, name);
    ASSERT_EQ(whole.code, 0) << name << ": " << whole.err;
    ASSERT_FALSE(hash_in(whole).empty()) << name << ": " << whole.out;
    EXPECT_EQ(state_in(launched(1, name)), state_in(whole)) << name;
    for (const char* fault :
         {"kill rank=1 txn=9 phase=forward", "kill rank=0 txn=10 phase=exchange",
          "kill rank=1 txn=6 phase=backward; kill rank=0 txn=7 phase=optimizer"}) {
      const Outcome outcome = launched(3, name, {"--inject", fault});
      EXPECT_EQ(outcome.code, 0) << name << ", " << fault << ": " << outcome.err;
      EXPECT_GE(killed_in(outcome), 1) << name << ", " << fault << ": " << outcome.err;
      EXPECT_EQ(state_in(outcome), state_in(whole)) << name << ", " << fault << ": " << outcome.err;
    }
  }
}

TEST_F(Rows, NewcomersHaveThem) {
  const std::string whole = state_in(launched(3, "right"));
  for (const auto& [first, fault] :
       {std::pair{4, "kill rank=0 txn=3 phase=forward"}, {9, "kill rank=2 txn=8 phase=exchange"}}) {
    const Outcome outcome = held(first, "replacement joined", 3, "right", fault);
    EXPECT_EQ(state_in(outcome), whole) << fault << ": " << outcome.err;
  }
}

// 24 steps of 4 virtual workers, two in each call of the closure.
TEST_F(Rows, AreThoseOfCommittedUpdates) {
  const auto counts = [&](const char* name) {
    const Outcome outcome = launched(2, name);
    EXPECT_EQ(count(outcome.err, "shares have carried rows, which are dropped"),
              name == std::string("left-out") ? 1 : 0)
        << name << ": " << outcome.err;
    const auto at = outcome.out.find("counts ");
    return at == std::string::npos ? -1 : std::stoi(outcome.out.substr(at + 7));
  };
  EXPECT_EQ(counts("right"), 24 * 4 * 2);
  EXPECT_EQ(counts("updates"), 24 * 4 * 2 * 2);
  EXPECT_EQ(counts("left-out"), 18 * 4 * 2);
  EXPECT_EQ(counts("nan-skip"), 23 * 4 * 2);
  // Those that the scaler leaves out keep theirs.
  EXPECT_EQ(counts("scaler"), 24 * 4 * 2);
  const std::string metrics = read_text(folder_ / "run/metrics.jsonl");
  const std::string scale = metrics.substr(metrics.rfind("\"scale\":"));
  EXPECT_LT(count(metrics, scale), 24) << "nothing overflowed: " << metrics;
}

TEST_F(Rows, GoOnFromACheckpointWithAnotherNumberOfWorkers) {
  const Outcome whole = launched(3, "slow");
  const Outcome killed = launched(
      3, "slow", {"--max-restarts", "0", "--inject", "kill txn=10 phase=backward repeat=3"});
  EXPECT_NE(killed.code, 0);
  const Outcome rest = again(2, "slow");
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(count(rest.err, "came out otherwise"), 0) << rest.err;
  EXPECT_NE(rest.err.find("resuming from"), std::string::npos) << rest.err;
  EXPECT_EQ(state_in(rest), state_in(whole));
  const Outcome another = again(2, "slow", {}, {"2"});
  EXPECT_EQ(another.code, 2) << another.err;
  EXPECT_NE(another.err.find("virtual_workers was 4, now it is 2"), std::string::npos)
      << another.err;
  const Outcome asked = again(2, "another", {}, {"2"});
  EXPECT_EQ(asked.code, 2) << asked.err;
  EXPECT_NE(asked.err.find("--new-virtual-workers is refused"), std::string::npos) << asked.err;
}

TEST_F(Rows, ThatMakeNoSenseAreRefused) {
  expect_refused("shape",
                 ": Share::carry(\"h\") with a tensor of [2, 1] Float on "
                 "cpu; the row that add_carried() was given is [2] Float on cpu");
  expect_refused("dtype", "a tensor of [2] Double on cpu");
  expect_refused("device", "on meta");
  expect_refused("undefined", "an undefined tensor");
  expect_refused("unknown",
                 "carried 'hh': the train state has nothing carried by that name; "
                 "it has 'h', 'count'");
  expect_refused("unknown-read", "carried 'c': ");
  expect_refused("kept", "Share::carry() outside of the share's closure");
  expect_refused("librarys-name", "begin with 'lockstep.'");
  expect_refused("twice", "two parts named 'h'");
  expect_refused("parts-name", "two parts named 'model'");
  expect_refused("same-name", "another tensor named 'carried.h'");
  expect_refused("no-row", "carried 'x': the row is an undefined tensor");
  expect_refused("early", "ask after Step::open()");
  expect_refused("late", "carried 'late': add_carried() after the run was opened");
  expect_refused("trainer-name", "two parts named 'optimizer'");
}

// What is kept beside them is lost where all workers have died. The steps that are done again show
// it: to the launcher that has done them before, and to the next one.
TEST_F(Rows, ThatAreKeptOutsideOfTheStateAreFoundAfterTheDeathOfAll) {
  const std::string found = "came out otherwise as it was done again: its ";
  const Words all_die{"--max-restarts", "1", "--inject", "kill txn=15 phase=backward repeat=3"};
  for (const auto& [name, told] :
       {std::pair{"outside-slow-unrehearsed", 1}, {"outside-slow-may-vary", 0}, {"slow", 0}}) {
    const Outcome outcome = launched(3, name, all_die);
    EXPECT_EQ(outcome.code, 0) << name << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("resuming from"), std::string::npos) << name << ": " << outcome.err;
    EXPECT_EQ(count(outcome.err, found), told) << name << ": " << outcome.err;
  }
  const Outcome error = launched(3, "outside-slow", all_die);
  EXPECT_EQ(error.code, 2) << error.err;
  EXPECT_NE(error.err.find("resuming from"), std::string::npos) << error.err;
  EXPECT_EQ(count(error.err, found), 1) << error.err;
  EXPECT_EQ(count(read_text(folder_ / "run/metrics.jsonl"), "\"before\":"), 1);
  // From the same checkpoint, with the same loss: it is told again.
  const Outcome warned = again(3, "outside-slow");
  EXPECT_EQ(warned.code, 0) << warned.err;
  EXPECT_EQ(count(warned.err, found), 1) << warned.err;
  EXPECT_EQ(count(read_text(folder_ / "run/metrics.jsonl"), "\"before\":"), 1);
}

// Before the first checkpoint, too. What an earlier launch has recorded is none of it.
TEST_F(Rows, WhatIsDoneAgainFromTheStartIsCompared) {
  EXPECT_EQ(launched(3, "right").code, 0);
  const Outcome error =
      again(3, "by-start-never",
            {"--max-restarts", "1", "--inject", "kill txn=10 phase=forward repeat=3"});
  EXPECT_EQ(error.code, 2) << error.err;
  EXPECT_NE(error.err.find("step 0 came out otherwise as it was done again: its loss is "),
            std::string::npos)
      << error.err;
}

// The loss is the same, what is carried is not.
TEST_F(Rows, ThatDependOnTheRankAreFound) {
  const Outcome outcome = launched(2, "by-rank");
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("what virtual worker 0 carries as 'h' has other bits in rank 0 than "
                             "in rank 1"),
            std::string::npos)
      << outcome.err;
}

}  // namespace
}  // namespace lockstep::test

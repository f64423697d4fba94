// What a program does at each update (hooks_worker.cpp): V = 4, 16 steps, each call counted in the
// state.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>
#include <tuple>
#include <utility>

#include "support/child.h"
#include "support/output.h"
#include "support/until.h"
#include "worker_run.h"

namespace lockstep::test {
namespace {

class Hooks : public WorkerRun {
 protected:
  Hooks() : WorkerRun(HOOKS_WORKER) {}
  // Weights, the hook's calls, and all of the state.
  static std::string state_in(const Outcome& outcome) {
    const auto at = outcome.out.find("calls ");
    return hash_in(outcome) +
           (at == std::string::npos ? "" : outcome.out.substr(at, outcome.out.find('\n', at) - at));
  }
};

// Transactions 10 and 11 are steps 10 and 11, or the updates of step 5.
TEST_F(Hooks, RunOnceAnUpdateWhoeverDiesInWhichPhase) {
  for (const char* name : {"right", "updates"}) {
    const Outcome whole = launched(4, name);
    ASSERT_EQ(whole.code, 0) << whole.err;
    EXPECT_EQ(count(state_in(whole), *name == 'u' ? "calls 32 " : "calls 16 "), 1) << whole.out;
    int round = 0;
    for (const char* phase : {"data", "forward", "backward", "exchange", "optimizer"}) {
      const int workers = 1 + ++round % 4;
      const std::string fault = "kill rank=" + std::to_string(round % workers) +
                                " txn=" + (round % 2 == 0 ? "10" : "11") + " phase=" + phase;
      const Outcome outcome = launched(workers, name, {"--max-restarts", "1", "--inject", fault});
      EXPECT_EQ(killed_in(outcome), 1) << workers << ", " << fault << ": " << outcome.err;
      EXPECT_EQ(state_in(outcome), state_in(whole)) << workers << ", " << fault;
    }
  }
}

// In the hook itself: those who live run it at the commit, as does whoever comes in with it.
TEST_F(Hooks, RunOnceAnUpdateWhoeverDiesInThem) {
  const std::string whole = state_in(launched(4, "right"));
  ASSERT_EQ(count(whole, "calls 16 "), 1);
  const std::string updates = state_in(launched(1, "updates"));
  for (const int workers : {1, 3, 4}) {
    const Outcome outcome = launched(workers, "dies", {"--max-restarts", "2"});
    EXPECT_EQ(killed_in(outcome), 2) << outcome.err;
    EXPECT_EQ(state_in(outcome), whole) << workers << ": " << outcome.err;
  }
  const Outcome outcome = launched(3, "dies-updates", {"--max-restarts", "2"});
  EXPECT_EQ(killed_in(outcome), 2) << outcome.err;
  EXPECT_EQ(state_in(outcome), updates) << outcome.err;
}

// No loss shows what it writes to the state, but the state does, in the steps that are done again.
TEST_F(Hooks, ThatCountOutsideOfTheStateAreFoundAfterTheDeathOfAll) {
  const Words all_die{"--max-restarts", "1", "--inject", "kill txn=9 phase=backward repeat=3"};
  const std::string found =
      "came out otherwise as it was done again: its train state is another one at the step's start";
  const Outcome right = launched(3, "slow", all_die);
  EXPECT_EQ(right.code, 0) << right.err;
  EXPECT_NE(right.err.find("resuming from"), std::string::npos) << right.err;
  EXPECT_EQ(count(right.err, "came out otherwise"), 0) << right.err;
  const Outcome error = launched(3, "counts-outside-slow", all_die);
  EXPECT_NE(error.err.find("resuming from"), std::string::npos) << error.err;
  EXPECT_EQ(error.code, 2) << error.err;
  EXPECT_EQ(count(error.err, found), 1) << error.err;
}

// Behind a stop in order nothing is done again: what stands on the number of workers would go on
// with another one, without a word.
TEST_F(Hooks, AnotherNumberOfWorkersIsToldToWhoAsksForIt) {
  for (const auto& [name, workers, told] :
       {std::tuple{"asks-slow", 2, 1}, {"asks-slow", 3, 0}, {"slow", 2, 0}}) {
    std::filesystem::remove_all(folder_ / "run");
    Child job(command(3, name));
    ASSERT_TRUE(until([&] { return count(read_text(folder_ / "run/metrics.jsonl"), "\n") > 4; }));
    job.send(SIGTERM);
    EXPECT_EQ(job.wait().code, 143) << job.err();
    const Outcome outcome = again(workers, name);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_EQ(count(outcome.err, "world_size() 2, it was 3 in the start before"), told)
        << name << ", " << workers << ": " << outcome.err;
  }
}

// A replacement makes its first update inside open().
TEST_F(Hooks, RunInNewcomersToo) {
  const std::string whole = state_in(launched(3, "right"));
  for (const auto& [first, fault] :
       {std::pair{4, "kill rank=0 txn=3 phase=forward"}, {5, "kill rank=2 txn=4 phase=exchange"}}) {
    const Outcome outcome = held(first, "replacement joined", 3, "right", fault);
    EXPECT_EQ(outcome.code, 0) << fault << ": " << outcome.err;
    EXPECT_EQ(state_in(outcome), whole) << fault << ": " << outcome.err;
  }
}

TEST_F(Hooks, GoOnFromACheckpointWithAnotherNumberOfWorkers) {
  for (const char* name : {"slow", "slow-updates"}) {
    const Outcome whole = launched(3, name);
    const Outcome killed = launched(
        3, name, {"--max-restarts", "0", "--inject", "kill txn=15 phase=optimizer repeat=3"});
    EXPECT_NE(killed.code, 0);
    const Outcome rest = again(2, name);
    EXPECT_NE(rest.err.find("resuming from"), std::string::npos) << rest.err;
    EXPECT_EQ(state_in(rest), state_in(whole)) << name;
  }
}

// Left out: by on_nan and for want of a share, without the hook; by a scaler, with it.
TEST_F(Hooks, RunAtUpdatesThatAreMade) {
  const auto calls = [&](const char* name, const char* wanted) {
    const Outcome whole = launched(1, name);
    EXPECT_EQ(whole.code, 0) << name << ": " << whole.err;
    EXPECT_EQ(count(whole.out, wanted), 1) << name << ": " << whole.out;
    const Outcome other = launched(3, name, {"--inject", "kill rank=1 txn=6 phase=backward"});
    EXPECT_EQ(state_in(other), state_in(whole)) << name << ": " << other.err;
  };
  calls("no-hook", "calls 0 ");
  calls("nan-skip", "calls 15 stepped 15 ");
  calls("left-out", "calls 12 stepped 12 ");
  calls("clips", "calls 16 stepped 16 ");
  EXPECT_EQ(count(read_text(folder_ / "run/metrics.jsonl"), "\"grad_norm\":"), 16);
  calls("own-gradient", "calls 16 stepped 16 ");
  calls("trainer", "calls 16 stepped 16");
  calls("masters", "calls 16 stepped 16");
  calls("scaler", "calls 16 ");
  EXPECT_EQ(count(launched(2, "scaler").out, "stepped 16 "), 0) << "nothing overflowed";
}

// Of each update the rate that it was done with; what comes behind is the next one's.
TEST_F(Hooks, ComeBehindSchedulesOfUpdates) {
  const auto rates = [&] {
    std::string found;
    std::istringstream lines(read_text(folder_ / "run/metrics.jsonl"));
    for (std::string line; std::getline(lines, line);) {
      const auto at = line.find("\"lr\":") + 5;
      found += line.substr(at, line.find_first_of(",}", at) - at) + " ";
    }
    return found;
  };
  const std::string third = "0.05 0.05 0.05 0.025 0.025 0.025 0.0125 0.0125 0.0125 ";
  const std::string steps = third + "0.00625 0.00625 0.00625 0.003125 0.003125 0.003125 0.0015625 ";
  std::string warmup = "0.0125 0.025 0.037500000000000006 ";
  for (int i = 0; i < 13; ++i) warmup += "0.05 ";
  const std::string skipped = third + "0.0125 0.00625 0.00625 0.00625 0.003125 0.003125 0.003125 ";
  for (const auto& [name, wanted] : {std::pair{"trainer-steps", steps},
                                     {"trainer-steps-scaler", steps},
                                     {"trainer-steps-nan-skip", skipped},
                                     {"trainer-lambda", warmup},
                                     {"trainer-plateau", std::string()}}) {
    const Outcome whole = launched(1, name);
    EXPECT_EQ(whole.code, 0) << name << ": " << whole.err;
    const std::string found = rates();
    if (wanted.empty())
      EXPECT_GT(count(found, "0.025 "), 0) << found;
    else
      EXPECT_EQ(found, wanted) << name;
    const std::string fault = "kill rank=1 txn=3 phase=optimizer";
    const Outcome other = wanted == warmup ? held(4, "replacement joined", 3, name, fault)
                                           : launched(3, name, {"--inject", fault});
    EXPECT_EQ(state_in(other), state_in(whole)) << name << ": " << other.err;
    EXPECT_EQ(rates(), found) << name;
  }
  const Outcome rest =
      launched(3, "trainer-lambda-slow",
               {"--max-restarts", "1", "--inject", "kill txn=15 phase=forward repeat=3"});
  EXPECT_NE(rest.err.find("resuming from"), std::string::npos) << rest.err;
  EXPECT_EQ(rates(), warmup);
  expect_refused("trainer-plateau-max", "goes by the update's loss, which falls");
}

// In the first update of step 7, of two; and who comes in later than that knows of it.
TEST_F(Hooks, MayEndTheRun) {
  for (const char* name : {"slow-ends", "slow-ends-updates", "trainer-ends"}) {
    const bool two = std::string(name).ends_with("updates");
    const Outcome whole = launched(1, name);
    EXPECT_EQ(whole.code, 0) << name << ": " << whole.err;
    EXPECT_NE(whole.out.find("The run ends here, at step 2 of 6 of epoch 2 (by the program)"),
              std::string::npos)
        << whole.out;
    EXPECT_EQ(count(whole.out, two ? "calls 16 " : "calls 8 "), 1) << whole.out;
    for (const std::string& fault : {std::string("kill rank=0 txn=3 phase=forward"),
                                     std::string(two ? "kill rank=1 txn=14 phase=backward"
                                                     : "kill rank=1 txn=7 phase=backward"),
                                     std::string(two ? "kill rank=2 txn=15 phase=optimizer"
                                                     : "kill rank=2 txn=7 phase=optimizer")}) {
      const Outcome outcome = launched(3, name, {"--inject", fault});
      EXPECT_EQ(killed_in(outcome), 1) << name << ", " << fault << ": " << outcome.err;
      EXPECT_EQ(state_in(outcome), state_in(whole)) << name << ", " << fault << ": " << outcome.err;
    }
    const Outcome rest = again(2, name);
    EXPECT_NE(rest.err.find("was ended by its program after 8 steps"), std::string::npos)
        << rest.err;
  }
}

// It hung: who goes on waits for those that have ended.
TEST_F(Hooks, EndTheRunInAllWorkersOrInNone) {
  for (const char* name : {"first-stops", "others-stop"}) {
    const Outcome outcome = launched(3, name);
    EXPECT_EQ(outcome.code, 2) << name << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("has ended the run before it"), std::string::npos)
        << name << ": " << outcome.err;
  }
}

// Each worker has gradients of its own for it, and its next step begins with none.
TEST_F(Hooks, MayWriteToGradients) {
  for (const char* name : {"writes-gradient", "clips-gradient", "optimizer-writes"}) {
    const Outcome whole = launched(1, name);
    EXPECT_EQ(whole.code, 0) << name << ": " << whole.err;
    EXPECT_EQ(state_in(launched(4, name)), state_in(whole)) << name;
    const Outcome other = launched(3, name, {"--inject", "kill rank=1 txn=6 phase=backward"});
    EXPECT_EQ(state_in(other), state_in(whole)) << name << ": " << other.err;
  }
  const std::string right = state_in(launched(1, "right"));
  for (const int workers : {1, 2})
    EXPECT_EQ(state_in(launched(workers, "own-backward")), right) << workers;
}

TEST_F(Hooks, ThatMakeNoSenseAreRefused) {
  const std::string late = "on_update() after the run was opened";
  expect_refused("late", late);
  expect_refused("later", late);
  expect_refused("trainer-late", late);
  expect_refused("empty", "on_update() with an empty function");
  expect_refused("trainer-name", "two parts named 'optimizer'");
  expect_refused("adds-late", "takes no 'more' any more");
  expect_refused("trainer-adds-late", "takes no 'more' any more");
  expect_refused("trainer-scales-late", "takes no 'scaler' any more");
  expect_refused("trainer-remembers-late", "any more: the run was opened");
  expect_refused("trainer-schedules-late", "takes no 'scheduler' any more");
  for (const char* name : {"next-in-hook", "next-in-closure"})
    expect_refused(name, "next() was called within a step");
  for (const char* name : {"run-in-hook", "run-in-closure"})
    expect_refused(name, "run() was called within a step");
  expect_refused("throws", "step 5: on_update(): no room in the album", 1);
}

}  // namespace
}  // namespace lockstep::test

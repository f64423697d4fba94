// Freezing and unfreezing in a run (phases_worker.cpp): V = 4, 24 steps, phases that begin with
// steps 8, 10 and 14; a checkpoint before step 12. Transactions are steps, or two of them are one.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/child.h"
#include "support/output.h"
#include "worker_run.h"

namespace lockstep::test {
namespace {

class Phases : public WorkerRun {
 protected:
  Phases() : WorkerRun(PHASES_WORKER) {}
  std::string whole(const std::string& name) const {
    const Outcome outcome = launched(4, name);
    EXPECT_EQ(outcome.code, 0) << name << ": " << outcome.err;
    return hash_in(outcome);
  }
  void expect_same(int workers, const std::string& name, const std::string& fault,
                   const std::string& hash) const {
    const Outcome outcome = launched(workers, name, {"--max-restarts", "2", "--inject", fault});
    EXPECT_EQ(outcome.code, 0) << name << ", " << fault << ": " << outcome.err;
    EXPECT_GE(killed_in(outcome), 1) << name << ", " << fault << ": " << outcome.err;
    EXPECT_EQ(hash_in(outcome), hash) << name << ", " << fault << ": " << outcome.err;
  }
};

TEST_F(Phases, OfOneWorkerHaveThePlainLoopsBits) {
  for (const char* kind : {"", "-later"}) {
    const std::string alone = hash_in(launched(1, "one" + std::string(kind)));
    EXPECT_EQ(hash_in(run({PHASES_WORKER, "plain" + std::string(kind), folder_ / "run"})), alone);
  }
}

// At the phases' borders, by all workers together, and with newcomers in a frozen phase.
TEST_F(Phases, AreTheSameWhoeverDies) {
  const std::string hash = whole("right");
  EXPECT_NE(hash, whole("never"));
  for (const char* fault : {"kill rank=1 txn=8 phase=forward", "kill rank=0 txn=7 phase=optimizer",
                            "kill rank=2 txn=14 phase=backward; kill rank=0 txn=14 phase=exchange",
                            "kill txn=13 phase=forward repeat=3"})
    expect_same(3, "right", fault, hash);
  for (const int workers : {1, 2}) {
    const Outcome outcome = launched(workers, "right");
    EXPECT_EQ(hash_in(outcome), hash) << outcome.err;
    EXPECT_EQ(count(outcome.out, "modules came back\n"), workers) << outcome.out << outcome.err;
  }
}

TEST_F(Phases, ANewcomerComesInWithTheFlagsOfThePhase) {
  const std::string hash = whole("right");
  const Outcome outcome =
      held(10, "replacement joined", 3, "right", "kill rank=1 txn=9 phase=forward");
  EXPECT_EQ(hash_in(outcome), hash) << outcome.err;
}

TEST_F(Phases, GoWithAllThatAStepMayHave) {
  for (const char* name : {"later", "masters", "scaled", "clipped", "unused", "hook"}) {
    const std::string hash = whole(name);
    expect_same(3, name, "kill rank=1 txn=10 phase=backward; kill rank=0 txn=15 phase=forward",
                hash);
    expect_same(2, name, "kill txn=13 phase=backward repeat=2", hash);
  }
  EXPECT_EQ(whole("hook"), whole("right"));
}

// What a closure freezes it freezes for its share: whoever inherits one has the step's flags.
TEST_F(Phases, AClosureMayFreezeTheOtherNetworkOfAGan) {
  const std::string hash = whole("gan");
  EXPECT_EQ(whole("gan-toggles"), hash);
  expect_same(3, "gan-toggles", "kill rank=1 txn=17 phase=forward; kill rank=0 txn=20 phase=data",
              hash);
}

// An epoch's end freezes, in newcomers too.
TEST_F(Phases, OfATrainerBeginWithItsEpochs) {
  const std::string hash = whole("trainer");
  expect_same(3, "trainer", "kill rank=1 txn=9 phase=evaluate; kill rank=0 txn=12 phase=forward",
              hash);
  const Outcome outcome =
      launched(3, "trainer-slow", {"--inject", "kill rank=2 txn=8 phase=forward"});
  EXPECT_EQ(hash_in(outcome), hash) << outcome.err;
}

TEST_F(Phases, ThatMakeNoSenseAreRefused) {
  expect_refused("by-rank",
                 "step 5: 'head.weight' is frozen (requires_grad false) in the worker of");
  expect_refused("freezes-in-closure", "frozen in the closure: body.weight, body.bias. A step's");
  for (const char* name : {"freezes-behind-0", "freezes-behind-3"})
    expect_refused(name, "frozen in the closure: body.weight, body.bias. A step's");
  expect_refused("unfreezes-in-closure",
                 "unfrozen in the closure: body.weight, body.bias. A step's");
  expect_refused("all-frozen", "where all that it depends on is frozen");
  expect_refused("outside", "'critic.body.weight' was unfrozen, and no optimizer");
  const Outcome inherited = launched(3, "by-rank", {"--inject", "kill rank=1 txn=5 phase=forward"});
  EXPECT_EQ(inherited.code, 2) << inherited.err;
  EXPECT_NE(inherited.err.find("in the worker that had this share before"), std::string::npos)
      << inherited.err;
}

TEST_F(Phases, TensorsOfTheStateKeepTheirPlace) {
  expect_refused("grows-parameter",
                 "the parameter 'body.weight' has been given other memory ([4, 3] Float before, "
                 "[5, 3] Float now)");
  expect_refused("grows-parameter", "\"Tensors that grow\"");
  expect_refused("grows-buffer", "the buffer 'norm.running_mean' has been given other memory");
  expect_refused("grows-own", "the tensor 'own.shift' (of");
  expect_refused("grows-moments", "exp_avg");
}

}  // namespace
}  // namespace lockstep::test

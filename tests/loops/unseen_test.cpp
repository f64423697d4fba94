// What no loss, gradient or later state shows, and the weights have all the same: what a share
// leaves in buffers, what one worker alone writes to buffers and rows, where the run ends
// (unseen_worker.cpp).
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "support/child.h"
#include "support/output.h"
#include "support/until.h"
#include "worker_run.h"

namespace lockstep::test {
namespace {

class Unseen : public WorkerRun {
 protected:
  Unseen() : WorkerRun(UNSEEN_WORKER) {}
  void expect_found(int workers, const std::string& name, const Words& words,
                    const Words& options = {}) const {
    expect_found(launched(workers, name, options), workers, name, words);
  }
  void expect_found(const Outcome& outcome, int workers, const std::string& name,
                    const Words& words) const {
    const std::string where = name + ", " + std::to_string(workers) + ": " + outcome.err;
    EXPECT_EQ(outcome.code, 2) << where;
    for (const std::string& each : words)
      EXPECT_NE(outcome.err.find(each), std::string::npos) << each << " in " << where;
  }
  // With deaths, too; in transaction 4 virtual worker 0's share is rank 1's to repeat.
  void expect_the_same(const std::string& name) const {
    const std::string whole = hash_in(launched(3, name));
    for (const int workers : {1, 2}) EXPECT_EQ(hash_in(launched(workers, name)), whole) << name;
    for (const char* fault :
         {"kill rank=1 txn=0 phase=backward", "kill rank=1 txn=4 phase=forward share=0",
          "kill rank=0 txn=2 phase=exchange", "kill rank=0 txn=21 phase=backward"}) {
      const Outcome outcome = launched(3, name, {"--inject", fault});
      EXPECT_EQ(outcome.code, 0) << name << ", " << fault << ": " << outcome.err;
      EXPECT_EQ(killed_in(outcome), 1) << name << ", " << fault << ": " << outcome.err;
      EXPECT_EQ(hash_in(outcome), whole) << name << ", " << fault << ": " << outcome.err;
    }
  }
};

TEST_F(Unseen, ABufferThatAShareMakesOfWhatTheStateDoesNotHave) {
  for (const char* name : {"calls", "shadow"})
    for (const int workers : {1, 2, 3})
      expect_found(workers, name,
                   {"step 0: what virtual worker ", "leaves in the buffer 'mean' has other bits",
                    "though its loss is the same", "register_buffer()"});
}

// In step 2: until then whoever repeats it has kept the same.
TEST_F(Unseen, ABufferThatItMakesOfWhatItsWorkerKeepsByVirtualWorker) {
  for (const int workers : {2, 3})
    expect_found(workers, "own-shadow",
                 {"step 2: what virtual worker 0 leaves in the buffer 'mean' has other bits"});
}

TEST_F(Unseen, ABufferThatANewcomersShareMakesOtherwise) {
  expect_found(held(9, "joined the run", 3, "momentum", "kill rank=1 txn=8 phase=forward"), 3,
               "momentum",
               {"leaves in the buffer 'norm.running_mean' has other bits", "joined the run"});
  EXPECT_EQ(launched(3, "momentum").code, 0);
}

// A loop that counts its rounds: a newcomer's shares are the others' until they change by it.
TEST_F(Unseen, ALossThatChangesByWhatTheLoopCounts) {
  expect_found(held(61, "replacement joined", 3, "epochs", "kill rank=1 txn=60 phase=forward"), 3,
               "epochs", {"step 320: the loss of virtual worker 1 is "});
  EXPECT_EQ(launched(3, "epochs").code, 0);
}

// Who was there alone has pools that are full before those of others that came in with empty ones:
// no share of theirs differs until they are full, too, but its own do. In step 320 or 384, as those
// came in; and behind 256 no step of the run is a power of two.
TEST_F(Unseen, WhatTheFirstWorkerKeepsAndThoseThatCameLaterLack) {
  Child job(command(1, "pool"));
  ASSERT_TRUE(until([&] { return count(read_text(folder_ / "run/metrics.jsonl"), "\n") > 150; }));
  EXPECT_EQ(run({LOCKSTEP_PROGRAM, "scale", folder_ / "run", "3"}).code, 0);
  const Outcome outcome = job.wait(std::chrono::seconds(60));
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find(": the loss of virtual worker 0 is "), std::string::npos)
      << outcome.err;
}

// Where nobody comes in a dead worker's place its shares go to others all the same.
TEST_F(Unseen, WhatADeadWorkerKeptAndThoseThatHaveItsSharesLack) {
  expect_found(3, "pool", {": the loss of virtual worker "},
               {"--max-replacements", "0", "--inject", "kill rank=2 txn=150 phase=forward"});
}

TEST_F(Unseen, BuffersOfRightSharesAreTheSame) {
  for (const char* name : {"right", "sits-out", "accumulates", "updates"}) expect_the_same(name);
}

TEST_F(Unseen, WhatOneWorkerWritesToBuffersOrRows) {
  for (const int workers : {2, 3}) {
    const std::string in_1 =
        " in rank 1, which has written to it since the update before, than "
        "in rank ";
    expect_found(workers, "writes-buffer-in-1",
                 {"step 21: the buffer 'mean' has other bits" + in_1, ", which has not",
                  "the loop, between next() and run()"});
    expect_found(workers, "writes-buffer-in-0",
                 {"step 21: the buffer 'mean' has other bits in rank 0, which has written to it"});
    expect_found(workers, "writes-rows-in-1",
                 {"step 21: what shares carry as 'h' has other bits" + in_1, ", which has not"});
    expect_found(workers, "writes-by-rank",
                 {"step 21: the buffer 'mean' has other bits in rank ", ", which has so, too"});
    expect_found(workers, "writes-in-hook",
                 {"step 21: the buffer 'mean' has other bits" + in_1, "a hook (on_update())"});
  }
}

TEST_F(Unseen, WhatAllWriteIsRight) { expect_the_same("writes"); }

TEST_F(Unseen, WhatOnePutsBackIsNoDifference) {
  EXPECT_EQ(hash_in(launched(3, "puts-back")), hash_in(launched(3, "right")));
}

TEST_F(Unseen, AnEndThatOneOfTwoWorkersDoesNotAskFor) {
  expect_found(held(6, "replacement joined", 3, "ends", "kill rank=1 txn=5 phase=forward"), 3,
               "ends", {"step 24: the share of virtual worker ", "ends the run", "goes on"});
  EXPECT_EQ(launched(3, "ends").code, 0);
}

TEST_F(Unseen, AnEndIsRepeatedAndRecorded) {
  const std::string whole = hash_in(launched(3, "ends-right"));
  EXPECT_EQ(count(read_text(folder_ / "run/metrics.jsonl"), "\"ends\":true"), 1);
  EXPECT_EQ(count(read_text(folder_ / "run/metrics.jsonl"), "\n"), 25);
  for (const int workers : {1, 2})
    EXPECT_EQ(hash_in(launched(workers, "ends-right")), whole) << workers;
  for (const char* fault :
       {"kill rank=1 txn=24 phase=backward share=0", "kill rank=0 txn=24 phase=exchange",
        "kill rank=2 txn=24 phase=optimizer"}) {
    const Outcome outcome = launched(3, "ends-right", {"--inject", fault});
    EXPECT_EQ(killed_in(outcome), 1) << fault << ": " << outcome.err;
    EXPECT_EQ(hash_in(outcome), whole) << fault << ": " << outcome.err;
  }
}

}  // namespace
}  // namespace lockstep::test

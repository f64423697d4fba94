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
        {"joined-target-sits", "the loss of virtual worker 1 is "},
        {"joined-target-dies", "the loss of virtual worker "},
        {"joined-gradient", "whose loss is the same, has other bits in rank 0 than in rank 2, "},
        {"joined-replay", " and none (it took no part) in rank 2, "},
        {"joined-eval", "the loss of virtual worker "},
        {"joined-world", "differs from that of rank 0 in the buffer 'count'"}}) {
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
  }
  std::filesystem::remove_all(folder_ / "run");
  EXPECT_EQ(again(3, "joined-target", dies, {"0"}).code, 0);
  const std::string whole = hash_in(launched(3, "joined"));
  for (const int workers : {2, 3})
    for (const char* fault : {"kill rank=1 txn=6 phase=forward",
                              "kill rank=1 txn=6 phase=forward; kill rank=0 txn=50 phase=backward"})
      EXPECT_EQ(hash_in(launched(workers, "joined", {"--inject", fault})), whole) << fault;
}

// It finds its last step's notes in the midst of being written over, and differences that are none.
TEST_F(ComeAndGo, AWorkerThatLeavesLateEndsNothing) {
  for (const char* name : {"leaves-modes", "leaves-flags"}) {
    std::filesystem::remove_all(folder_ / "run");
    Child job(command(3, name, {"--inject", "stop rank=2 phase=exchange repeat=100000"}));
    ASSERT_TRUE(until([&] { return count(read_text(folder_ / "run/metrics.jsonl"), "\n") > 9; }));
    EXPECT_EQ(run({LOCKSTEP_PROGRAM, "scale", folder_ / "run", "2"}).code, 0);
    const Outcome outcome = job.wait(std::chrono::seconds(20));
    EXPECT_EQ(outcome.code, 0) << name << ": " << outcome.err;
    EXPECT_EQ(count(outcome.err, "is in eval()"), 0) << name << ": " << outcome.err;
  }
}

}  // namespace
}  // namespace lockstep::test

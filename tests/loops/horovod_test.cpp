// Horovod's names on real workers: values with closed forms (horovod_worker.cpp), both forms.
#include <gtest/gtest.h>

#include <filesystem>

#include "support/child.h"
#include "support/output.h"

namespace lockstep::test {
namespace {

class Horovod : public ::testing::Test {
 protected:
  Outcome workers(int count, const std::string& name, std::vector<std::string> options = {}) const {
    std::filesystem::remove_all(folder_ / "run");
    std::vector<std::string> command{LOCKSTEP_PROGRAM, "run", "--nproc-per-node",
                                     std::to_string(count)};
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), {HOROVOD_WORKER, name, folder_ / "run"});
    return run(command);
  }
  void expect_refused(const char* name, const char* words) const {
    const Outcome outcome = workers(2, name);
    EXPECT_EQ(outcome.code, 2) << name << ": " << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << name << ": " << outcome.err;
  }
  void TearDown() override {
    EXPECT_TRUE(processes_with(folder_.path()).empty()) << "a process is left behind";
  }
  TempFolder folder_;
};

TEST_F(Horovod, BackwardThenStepAveragesOverRanks) {
  for (const int count : {1, 2, 3}) {
    const Outcome outcome = workers(count, "fixed");
    EXPECT_EQ(outcome.code, 0) << count << ": " << outcome.err;
  }
  const Outcome alone = run({HOROVOD_WORKER, "fixed", folder_ / "alone"});
  EXPECT_EQ(alone.code, 0) << alone.err;
}

TEST_F(Horovod, ADeathEndsAFixedGroup) {
  const Outcome ended = workers(3, "death");
  EXPECT_EQ(ended.code, 75) << ended.err;
  EXPECT_NE(ended.err.find("SIGKILL"), std::string::npos) << ended.err;
  EXPECT_EQ(workers(3, "caught").code, 75);
}

TEST_F(Horovod, AClosureIsExactWhoeverComputesIt) {
  const Outcome whole = workers(4, "elastic");
  EXPECT_EQ(whole.code, 0) << whole.err;
  const std::string weights = last_line(whole.out);
  EXPECT_EQ(weights.find("weights sha256 "), 0U) << whole.out;
  EXPECT_EQ(last_line(workers(3, "elastic").out), weights);
  const Outcome killed = workers(3, "elastic", {"--inject", "kill rank=1 txn=7 phase=backward"});
  EXPECT_EQ(killed.code, 0) << killed.err;
  EXPECT_EQ(killed_in(killed), 1) << killed.err;
  EXPECT_EQ(last_line(killed.out), weights) << killed.err;
}

TEST_F(Horovod, TheFormsAreKeptApart) {
  expect_refused("closure", "step(closure) needs a run");
  expect_refused("bare", "step() without a closure needs a worker for each rank");
  expect_refused("unknown", "broadcast_parameters() has not had this module");
  expect_refused("adds-late", "'late' was added");
}

TEST_F(Horovod, WorkersOfARunMustMakeTheModelAlike) {
  const Outcome outcome = workers(2, "different");
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.err.find("initial_weights_sha256"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace lockstep::test

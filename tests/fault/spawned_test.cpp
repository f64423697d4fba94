// The processes of lockstep::spawn() with toy workers, where sanitizers see them too; all else of
// it is in tests/loops/spawn_test.cpp.
#include "launcher_support.h"

namespace lockstep::test {
namespace {

class Spawned : public ToyRun {
 protected:
  Words spawn(const std::string& workers, const Words& options) const {
    Words words{TOY_WORKER, "--spawn", workers, "--run-dir", run_dir()};
    words.insert(words.end(), options.begin(), options.end());
    return words;
  }
  Child::Variables variables(const std::string& inject = "") const {
    Child::Variables all{{"LOCKSTEP_LAUNCHER", LOCKSTEP_PROGRAM}};
    if (!inject.empty()) all.emplace_back("PET_INJECT", inject);
    return all;
  }
  bool all_gone() const {
    for (int i = 0; i < 2000 && !processes_with(run_dir()).empty(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return processes_with(run_dir()).empty();
  }
};

TEST_F(Spawned, WorkersAreReplacedAndTheStateIsThatOfOne) {
  const Outcome outcome = run(spawn("3", {"--txns", "40", "--step-us", "5000"}),
                              variables("kill rank=1 txn=10; kill rank=0 txn=20 phase=exchange"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(last_line(outcome.out), expected("40"));
  EXPECT_EQ(steps_in(outcome.out), count_to(40));
  EXPECT_EQ(incidents(), 2);
}

TEST_F(Spawned, TheRunsExitCodeIsTheCallers) {
  const Outcome outcome = run(spawn("2", {"--exit-early", "1:5:65"}), variables());
  EXPECT_EQ(outcome.code, 65) << outcome.err;
  EXPECT_NE(outcome.err.find("exit code 65; its error is above"), std::string::npos) << outcome.err;
}

TEST_F(Spawned, EndsWithItsCaller) {
  for (const int number : {SIGKILL, SIGTERM}) {
    Child caller(spawn("2", {"--txns", "1000", "--step-us", "5000"}), variables());
    ASSERT_TRUE(caller.wait_for_output("step 5"));
    caller.send(number);
    EXPECT_EQ(caller.wait().code, -number);
    EXPECT_TRUE(all_gone());
  }
}

// It is on one node, whatever a step of Slurm or a cluster's operator says.
TEST_F(Spawned, IsNoRunOfSeveralNodes) {
  auto around = variables();
  for (const auto& [name, value] : {std::pair{"SLURM_STEP_ID", "0"},
                                    {"SLURM_STEP_NUM_NODES", "2"},
                                    {"SLURM_LOCALID", "1"},
                                    {"PET_NNODES", "2"},
                                    {"PET_NODE_RANK", "1"}})
    around.emplace_back(name, value);
  const Outcome well = run(spawn("2", {"--txns", "5"}), around);
  EXPECT_EQ(well.code, 0) << well.err;
}

TEST_F(Spawned, ASecondThreadIsNamed) {
  const Outcome outcome = run(spawn("2", {"--thread"}), variables());
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("'toy_second'"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace lockstep::test

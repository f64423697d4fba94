// examples/ppo: several updates from what the first one has played, killed in each phase of each,
// beside the plain loop, and that it learns; and the guide's DQN.
#include "example_run.h"

namespace lockstep::test {
namespace {

class Ppo : public ExampleRun {
 protected:
  Ppo()
      : ExampleRun(PPO, {"--updates", "3", "--lr", "0.005", "--most-kl", "0.01", "--max-steps", "6",
                         "--checkpoint-every", "2", "--log-every", "3"}) {}

  std::string metrics() const { return read_text(folder_ / "run/metrics.jsonl"); }
  // How many shares took part in the update of that transaction.
  int shares_in(int txn) const {
    const std::string all = metrics();
    const auto line = all.find("{\"txn\":" + std::to_string(txn) + ",");
    const auto at = line == std::string::npos ? line : all.find("\"samples\":", line);
    return at == std::string::npos ? -1 : std::stoi(all.substr(at + 10));
  }
  // What the DQN prints at its end.
  static double return_in(const Outcome& outcome) {
    const auto at = outcome.out.rfind("mean return: ");
    return at == std::string::npos ? -1 : std::stod(outcome.out.substr(at + 13));
  }
};

// Transactions 9 to 11 are the updates of step 3: of all shares, of all, and of none; 7 is of some.
// A share that takes no part has no backward.
TEST_F(Ppo, EndsWithTheSameWeightsWhoeverDiesInWhichPhaseOfWhichUpdate) {
  EXPECT_EQ(count(launched(4).out, "Loss: "), 2);
  EXPECT_EQ(shares_in(10), 4);
  EXPECT_EQ(shares_in(11), 0);
  EXPECT_TRUE(shares_in(7) > 0 && shares_in(7) < 4) << shares_in(7);
  Words moments = in_each_phase({"9", "10"});
  for (const char* txn : {"7", "11"})
    for (const char* phase : {"data", "forward", "exchange", "optimizer"})
      moments.push_back(std::string("txn=") + txn + " phase=" + phase);
  expect_one_end_whoever_dies(moments, 4);
}

TEST_F(Ppo, GoesOnAfterAllHaveDiedInALaterUpdate) {
  expect_one_end_after_all_have_died("9", "txn=13 phase=backward");
}

TEST_F(Ppo, WithOneWorkerIsThePlainLoop) {
  const Outcome outcome =
      run({PPO, "--virtual-workers", "1", "--max-steps", "8", "--output", folder_ / "run"});
  expect_the_plain_loop(outcome, PPO_PLAIN, 80, {"8", "10"});
}

// From nothing to the goal, at which the run ends.
TEST_F(Ppo, Learns) {
  const Words command{
      LOCKSTEP_PROGRAM, "run",          "--standalone", "--nproc-per-node", "2", PPO,
      "--output",       folder_ / "run"};
  const Outcome outcome = run(command);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count(outcome.out, "(by the program)"), 1) << outcome.out;
  const std::string all = metrics(), name = "\"return\":";
  ASSERT_EQ(count(all, name + "["), count(all, "\"update\":0,")) << all;
  EXPECT_LT(std::stod(all.substr(all.find(name) + name.size())), 50);
  const auto last = all.rfind(name, all.rfind(name + "[") - 1);
  EXPECT_GE(std::stod(all.substr(last + name.size())), 475);
}

TEST_F(Ppo, TheGuidesDqnLearnsAndIsExact) {
  const auto dqn = [&](int workers, const std::string& fault) {
    std::filesystem::remove_all(folder_ / "run");
    return run({LOCKSTEP_PROGRAM, "run", "--standalone", "--nproc-per-node",
                std::to_string(workers), "--inject", fault, DQN, folder_ / "run", "1000"});
  };
  const Outcome whole = dqn(1, "");
  EXPECT_GT(return_in(whole), 60) << whole.out;
  const Outcome killed = dqn(3,
                             "kill rank=1 txn=100 phase=optimizer; kill rank=0 txn=101 "
                             "phase=backward; kill rank=2 txn=600 phase=exchange");
  EXPECT_GE(killed_in(killed), 2) << killed.err;
  EXPECT_EQ(hash_in(killed), hash_in(whole));
  EXPECT_EQ(return_in(killed), return_in(whole));
}

}  // namespace
}  // namespace lockstep::test

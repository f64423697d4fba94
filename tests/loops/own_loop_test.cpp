// examples/own_loop, with its schedule of the learning rate: what a newcomer does first must be
// what the others do.
#include <gtest/gtest.h>

#include <filesystem>
#include <tuple>

#include "support/child.h"
#include "support/output.h"
#include "support/stopped.h"

namespace lockstep::test {
namespace {

class OwnLoop : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;
  static constexpr const char* kSteps = "400";

  Words job(const std::string& name) const {
    return {OWN_LOOP, "--virtual-workers",  "3",  "--max-steps", kSteps,        "--batch-size",
            "8",      "--checkpoint-every", "10", "--output",    folder_ / name};
  }
  Words command(const std::string& name, const Words& options) const {
    Words words{LOCKSTEP_PROGRAM, "run", "--nproc-per-node", "3"};
    words.insert(words.end(), options.begin(), options.end());
    const Words program = job(name);
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }
  Outcome launched(const std::string& name, const Words& options) const {
    return run(command(name, options));
  }
  std::string hash(const Outcome& outcome) const {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return hash_in(outcome);  // wherever it is among what workers print at the end
  }
  void TearDown() override {
    EXPECT_TRUE(processes_with(folder_.path()).empty()) << "a process is left behind";
  }
  TempFolder folder_;
};

TEST_F(OwnLoop, EndsWithTheSameWeightsHoweverManyWorkersItHasAndLoses) {
  const std::string alone = hash(run(job("alone")));
  EXPECT_TRUE(alone.starts_with("weights sha256 ")) << alone;
  EXPECT_EQ(hash(launched("three", {})), alone);
  // Early, while the rate still rises: a newcomer's first updates would show another rate.
  for (const char* fault : {"kill rank=0 txn=4 phase=forward", "kill rank=2 txn=9 phase=optimizer",
                            "kill rank=1 txn=30 phase=exchange"}) {
    const std::string name = "killed-" + std::string(fault).substr(5, 6);
    const Outcome outcome = launched(name, {"--inject", fault});
    EXPECT_EQ(hash(outcome), alone) << fault;
    EXPECT_NE(outcome.err.find("replacement is started"), std::string::npos) << outcome.err;
  }
}

// The guide's: epochs of 6 steps, the best of them by a validation, kept in the train state.
TEST_F(OwnLoop, KeepsTheBestWeightsWhoeverDies) {
  Outcome outcome;
  const auto best_of = [&](int workers, const Words& options) {
    std::filesystem::remove_all(folder_ / "run");
    std::filesystem::remove_all(folder_ / "best.pt");
    Words words{LOCKSTEP_PROGRAM, "run", "--nproc-per-node", std::to_string(workers)};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {BEST, folder_ / "run", folder_ / "best.pt"});
    outcome = run(words);
    const auto at = outcome.out.find("best ");
    return hash(outcome) + read_text(folder_ / "best.pt") +
           (at == std::string::npos ? "" : outcome.out.substr(at, outcome.out.find('\n', at) - at));
  };
  const std::string whole = best_of(1, {});
  const auto at = whole.rfind("best "), last = whole.rfind(", last ");
  ASSERT_NE(last, std::string::npos);
  EXPECT_LT(std::stod(whole.substr(at + 5)), std::stod(whole.substr(last + 7)));
  // In an epoch's last update and behind it, one and all.
  for (const char* fault :
       {"kill rank=1 txn=11 phase=optimizer", "kill rank=0 txn=12 phase=data",
        "kill rank=2 txn=23 phase=exchange; kill rank=0 txn=29 phase=backward",
        "kill txn=17 phase=optimizer repeat=3", "kill txn=24 phase=forward repeat=3"})
    EXPECT_TRUE(best_of(3, {"--max-restarts", "1", "--inject", fault}) == whole)
        << fault << ": " << outcome.code << outcome.out << outcome.err;
}

TEST_F(OwnLoop, ExamplesRefuseOptionsThatMakeNoSense) {
  using Option = std::pair<const char*, const char*>;
  const auto refuse = [&](const char* program, const std::vector<Option>& options) {
    for (const auto& [name, value] : options) {
      const Outcome outcome = run({program, "--output", folder_ / "none", name, value});
      EXPECT_EQ(outcome.code, 2) << program << " " << name << " " << value << ": " << outcome.err;
      EXPECT_NE(outcome.err.find(name), std::string::npos) << name << ": " << outcome.err;
    }
  };
  const std::vector<Option> both{{"--epochs", "0"},     {"--epochs", "1x"},
                                 {"--batch-size", "0"}, {"--batch-size", "-1"},
                                 {"--max-steps", "-1"}, {"--steps", "1"}};
  refuse(OWN_LOOP, both);
  refuse(OWN_LOOP, {{"--resume", ""}, {"--virtual-workers", "-1"}});
  refuse(DDP_LOOP, both);
  refuse(DDP_LOOP, {{"--accumulate", "0"}, {"--accumulate", "-1"}, {"--max-steps", "0"}});
  EXPECT_FALSE(std::filesystem::exists(folder_ / "none"));
  const Outcome few = run({DDP_LOOP, "--output", folder_ / "few", "--batch-size", "60001"});
  EXPECT_EQ(few.code, 2) << few.err;
  EXPECT_NE(few.err.find("--batch-size is 60001; a rank has 60000 samples"), std::string::npos)
      << few.err;
}

// A run that ends with its first weights has trained nothing.
TEST_F(OwnLoop, AnAccumulationThatMakesNoUpdateIsRefused) {
  for (const auto& [accumulate, steps, why] : {std::tuple{"11", "10", "--max-steps 10"},
                                               {"601", "1000", "--epochs 1 of 600 batches each"}}) {
    const Outcome none = run({DDP_LOOP, "--output", folder_ / accumulate, "--accumulate",
                              accumulate, "--max-steps", steps});
    EXPECT_EQ(none.code, 2) << none.err;
    EXPECT_NE(none.err.find(std::string("--accumulate is ") + accumulate), std::string::npos)
        << none.err;
    EXPECT_NE(none.err.find(why), std::string::npos) << none.err;
    EXPECT_NE(none.err.find("no update would be made"), std::string::npos) << none.err;
    EXPECT_EQ(none.out, "");
  }
}

// Nobody could finish its step for it: a signal does what its author, or the system, has in mind.
TEST_F(OwnLoop, InPyTorchsStyleEndsByASignalAtOnce) {
  const std::string output = folder_ / "ddp";
  const Words command{LOCKSTEP_PROGRAM,
                      "run",
                      "--nproc-per-node",
                      "2",
                      "--max-restarts",
                      "3",
                      DDP_LOOP,
                      "--epochs",
                      "100000",
                      "--max-steps",
                      "100000000",
                      "--batch-size",
                      "8",
                      "--output",
                      output};
  for (const bool workers_first : {false, true}) {
    Child launcher(command);
    ASSERT_TRUE(launcher.wait_for_output("Step [50]"));
    if (workers_first) {
      for (const pid_t pid : processes_with(output))
        if (pid != launcher.pid()) ::kill(pid, SIGHUP);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    const auto begin = std::chrono::steady_clock::now();
    launcher.send(SIGHUP);
    const Outcome outcome = launcher.wait();
    EXPECT_EQ(outcome.code, 128 + SIGHUP) << outcome.err;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10)) << "not killed";
    EXPECT_EQ(outcome.err.find("starts again"), std::string::npos) << outcome.err;
  }
}

TEST_F(OwnLoop, GoesOnFromItsCheckpoint) {
  const std::string alone = hash(run(job("alone")));
  Child first(command("resumed", {"--max-replacements", "0", "--stop-grace", "60", "--inject",
                                  "stop rank=2 txn=349 phase=forward", "--inject",
                                  "kill rank=0 txn=350 phase=forward", "--inject",
                                  "kill rank=1 txn=350 phase=forward", "--inject",
                                  "kill rank=2 txn=350 phase=forward"}));
  // What is written when all die is no checkpoint.
  while_stopped(folder_.path(), [&] {
    EXPECT_TRUE(
        until([&] { return std::filesystem::exists(folder_ / "resumed/checkpoints/last"); }));
  });
  const Outcome killed = first.wait();
  EXPECT_EQ(killed.code, 75) << killed.err;
  const Outcome resumed = launched("resumed", {});
  EXPECT_NE(resumed.err.find("resuming from"), std::string::npos) << resumed.err;
  EXPECT_EQ(hash(resumed), alone);
}

}  // namespace
}  // namespace lockstep::test

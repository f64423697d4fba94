// Steps of several updates as users meet them (updates_worker.cpp): V = 4, three updates a step.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "loops/updates_runs.h"
#include "support/until.h"

namespace lockstep::test {
namespace {

// Step 5 is transactions 15 to 17.
TEST_F(Updates, AreTheSameWhoeverComesAndGoes) {
  for (const char* name : {"right", "draws", "accumulates", "ahead", "scaler", "both", "noise",
                           "sits-out", "left-out", "nan-skip"}) {
    const Outcome whole = launched(4, name);
    ASSERT_EQ(whole.code, 0) << name << ": " << whole.err;
    const auto results = results_in(whole);
    const std::string records = metrics();
    EXPECT_EQ(results.size(), name == std::string("accumulates") ? 48U : 96U) << name;
    const Outcome one = launched(1, name);
    EXPECT_EQ(hash_in(one), hash_in(whole)) << name;
    EXPECT_EQ(results_in(one), results) << name;
    for (const char* fault :
         {"kill rank=1 txn=15 phase=forward", "kill rank=0 txn=16 phase=backward",
          "kill rank=1 txn=16 phase=exchange; kill rank=0 txn=17 phase=optimizer"}) {
      const Outcome outcome = launched(3, name, {"--inject", fault});
      EXPECT_EQ(outcome.code, 0) << name << ", " << fault << ": " << outcome.err;
      EXPECT_GE(killed_in(outcome), 1) << name << ", " << fault << ": " << outcome.err;
      EXPECT_EQ(hash_in(outcome), hash_in(whole)) << name << ", " << fault << ": " << outcome.err;
      EXPECT_EQ(results_in(outcome), results) << name << ", " << fault;
      EXPECT_EQ(metrics(), records) << name << ", " << fault;
    }
  }
}

TEST_F(Updates, CountAsOneStep) {
  const Outcome outcome = launched(1, "right", {});
  EXPECT_EQ(count(read_text(folder_ / "run/ledger.jsonl"), "\n"), 24);
  const std::string metrics = read_text(folder_ / "run/metrics.jsonl");
  EXPECT_EQ(count(metrics, "\n"), 72);
  // Step 4 is transactions 12 to 14.
  std::string losses = "Epoch [1/2], Step [5/12], Loss: ";
  for (const int update : {0, 1, 2}) {
    const auto record = metrics.find("{\"txn\":" + std::to_string(12 + update) + ",");
    ASSERT_NE(record, std::string::npos) << metrics;
    const double loss = std::stod(metrics.substr(metrics.find("\"loss\":", record) + 7));
    std::array<char, 32> text{};
    std::snprintf(text.data(), text.size(), "%s%.4f", update == 0 ? "" : ", ", loss);
    losses += text.data();
  }
  EXPECT_NE(outcome.out.find(losses + "\n"), std::string::npos) << losses << outcome.out;
  EXPECT_EQ(count(metrics, "\"update\":2,"), 24);
  EXPECT_EQ(count(metrics, "\"step\":23,"), 3);
  // Once for all updates; the rehearsal of the first step fetches again in each of them, and of one
  // share those of steps 1, 2, 4, 8 and 16; of virtual worker 0's, which leaves buffers, those of
  // 2, 4, 8 and 16, too, but in three updates it is that one. 16 samples are looked at for the
  // manifest.
  const int once = 24 * 4, again = 3 * 4 + 3 * 5 + 3 * 4 - 3;
  const auto at = outcome.out.find("fetched ");
  ASSERT_NE(at, std::string::npos) << outcome.out;
  EXPECT_EQ(std::stoi(outcome.out.substr(at + 8)), once + again + 1) << outcome.out;
}

// In the first update, and who joins in the step's last one knows of it too.
TEST_F(Updates, OneMayEndTheRun) {
  const Outcome whole = launched(3, "ends");
  EXPECT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(whole.out.find("The run ends here, at step 8 of 12"), std::string::npos) << whole.out;
  EXPECT_EQ(count(read_text(folder_ / "run/metrics.jsonl"), "\n"), 24);
  for (const char* fault :
       {"kill rank=1 txn=20 phase=backward", "kill rank=1 txn=21 phase=forward",
        "kill rank=0 txn=22 phase=forward", "kill rank=2 txn=23 phase=backward"}) {
    const Outcome outcome = launched(3, "ends", {"--inject", fault});
    EXPECT_EQ(outcome.code, 0) << fault << ": " << outcome.err;
    EXPECT_EQ(killed_in(outcome), 1) << fault << ": " << outcome.err;
    EXPECT_EQ(hash_in(outcome), hash_in(whole)) << fault << ": " << outcome.err;
  }
}

// Step 7 ends the run, says its first update (21). Rank 0, alone by then, stands still there until
// a newcomer is ready, which comes in with the last update (23) and alone commits it.
TEST_F(Updates, WhoComesInWithTheLastKnowsOfTheFirst) {
  const auto line = [](const Outcome& outcome) {
    const auto at = outcome.out.find("Step [8/12], Loss: ");
    return at == std::string::npos ? "none"
                                   : outcome.out.substr(at, outcome.out.find('\n', at) - at);
  };
  const Outcome whole = launched(1, "ends");
  Outcome outcome;
  for (int tries = 1; tries <= 4 && (tries == 1 || outcome.code != 0); ++tries) {
    std::filesystem::remove_all(folder_ / "run");
    Child job(command(2, "ends",
                      {"--stop-grace", "60", "--inject",
                       "kill rank=1 txn=18 phase=forward; stop rank=0 txn=21 phase=forward; "
                       "kill rank=0 txn=23 phase=optimizer"}));
    while_stopped([&] { std::this_thread::sleep_for(std::chrono::milliseconds(400) * tries); });
    outcome = job.wait();
  }
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(killed_in(outcome), 2) << outcome.err;
  EXPECT_EQ(hash_in(outcome), hash_in(whole));
  EXPECT_EQ(line(outcome), line(whole));
}

// A stop waits for the step's end, and its checkpoint is of a step's start.
TEST_F(Updates, AStopComesBetweenSteps) {
  const std::string whole = hash_in(launched(3, "slow")), records = metrics();
  std::filesystem::remove_all(folder_ / "run");
  Child job(command(3, "slow"));
  ASSERT_TRUE(until([&] { return count(read_text(folder_ / "run/metrics.jsonl"), "\n") > 7; }));
  job.send(SIGTERM);
  EXPECT_EQ(job.wait().code, 143) << job.err();
  for (const auto& entry : std::filesystem::directory_iterator(folder_ / "run/checkpoints")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("step-")) continue;
    EXPECT_EQ(std::stoi(name.substr(5)) % 3, 0) << name;
  }
  const Outcome rest = run(command(2, "slow"));
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(hash_in(rest), whole);
  EXPECT_EQ(metrics(), records);
}

// Between next() and run() it multiplies a tensor of the state: checkpoints, those of a stop too,
// are of before it, a newcomer's copy has it.
TEST_F(Updates, TheLoopsOwnCodeCountsOnceAStep) {
  const std::string whole = hash_in(launched(3, "slow"));
  const Outcome outcome = launched(
      3, "slow", {"--max-restarts", "1", "--inject", "kill txn=270 phase=forward repeat=3"});
  EXPECT_EQ(killed_in(outcome), 3) << outcome.err;
  EXPECT_NE(outcome.err.find("resuming from"), std::string::npos) << outcome.err;
  EXPECT_EQ(hash_in(outcome), whole) << outcome.err;
}

TEST_F(Updates, NewcomersComeInBetweenSteps) {
  const Words epochs{"2"};
  const Outcome undisturbed = launched(3, "slow", {}, epochs);
  const std::string whole = hash_in(undisturbed), records = metrics();
  for (const char* fault : {"kill rank=0 txn=9 phase=forward", "kill rank=1 txn=10 phase=backward",
                            "kill rank=2 txn=11 phase=exchange"}) {
    const Outcome outcome = held(4, "replacement joined", 3, "slow", fault, epochs);
    EXPECT_EQ(hash_in(outcome), whole) << fault << ": " << outcome.err;
    EXPECT_EQ(results_in(outcome), results_in(undisturbed)) << fault;
    EXPECT_EQ(metrics(), records) << fault;
  }
}

// Step 3 is transactions 9 to 11. Rank 0 stands still in it, in each of its updates, while somebody
// scales the run; and again in step 10.
TEST_F(Updates, AScaledRunChangesHandsBetweenSteps) {
  for (const int update : {0, 1, 2}) {
    std::filesystem::remove_all(folder_ / "run");
    const auto stop = [&](int step) {
      return "stop rank=0 phase=forward txn=" + std::to_string(3 * step + update);
    };
    std::vector<std::string> words =
        command(3, "slow-owners", {"--stop-grace", "60", "--inject", stop(3) + "; " + stop(10)});
    words.emplace_back("200");
    Child job(words);
    scale_while_stopped(1);
    scale_while_stopped(4);
    ASSERT_TRUE(until([&] { return count(job.err(), "has grown from 1 to 4") == 1; })) << job.err();
    const int grown = owners().rbegin()->first;
    ASSERT_TRUE(until([&] { return owners().rbegin()->first > grown + 2; })) << job.err();
    job.send(SIGTERM);
    EXPECT_EQ(job.wait().code, 143) << job.err();
    auto before = owners();
    EXPECT_EQ(before[grown + 1].size(), 4U);
    before.erase(before.upper_bound(10), before.end());
    EXPECT_EQ(before.size(), 11U);
    for (const auto& [step, pids] : before)
      EXPECT_EQ(pids.size(), step <= 3 ? 3U : 1U) << "step " << step;
  }
}

// The copy is loaded in more time than a step's last update takes, and a newcomer's patience.
TEST_F(Updates, ANewcomerThatIsSlowToLoadComesIn) {
  const Outcome outcome =
      held(4, "replacement joined", 3, "slow-to-load", "kill rank=2 txn=9 phase=forward");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count(outcome.out, "fetched "), 3) << outcome.out << outcome.err;
}

// Rank 1 dies when the replacement has seen the first update of its first step, and no other. The
// group may start again from a checkpoint, which knows.
TEST_F(Updates, ANewcomerWhoseStepNobodyKnowsDoesNotGuess) {
  const std::string whole = hash_in(launched(2, "last-witness"));
  for (const char* restarts : {"0", "1"}) {
    const Outcome outcome =
        launched(2, "last-witness",
                 {"--max-restarts", restarts, "--inject", "kill rank=0 txn=9 phase=forward"});
    EXPECT_NE(outcome.err.find("nobody is left who knows which optimizer it has"),
              std::string::npos)
        << outcome.err;
    if (restarts == std::string("0"))
      EXPECT_EQ(outcome.code, 75) << outcome.err;
    else
      EXPECT_EQ(hash_in(outcome), whole) << outcome.err;
  }
}

TEST_F(Updates, ATensorOfTheStatesOwnIsTrainedAsAModulesIs) {
  const std::string in_module = hash_in(launched(1, "own-module"));
  EXPECT_EQ(hash_in(launched(1, "own")), in_module);
  for (const char* name : {"own", "own-masters", "own-unfrozen"}) {
    const Outcome outcome = launched(3, name, {"--inject", "kill rank=1 txn=5 phase=backward"});
    EXPECT_EQ(killed_in(outcome), 1) << outcome.err;
    EXPECT_EQ(hash_in(outcome), hash_in(launched(1, name))) << name << ": " << outcome.err;
  }
}

// Both optimizers have the first network; a scale of 2^16 changes no bit.
TEST_F(Updates, ASharedParametersGradientIsUnscaledOnce) {
  const Outcome outcome = launched(1, "shared-scaler");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(hash_in(outcome), hash_in(launched(1, "shared")));
}

// 1,200 updates a step: the remark on a loss is made in the first step alone.
TEST_F(Updates, AreAsManyAsYouLike) {
  const Outcome outcome = launched(1, "many");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count(outcome.out, "is nan; training goes on"), 1) << outcome.out;
}

TEST_F(Updates, WhatNoShareTakesPartInIsLeftOut) {
  const Outcome outcome = launched(2, "left-out");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const std::string metrics = read_text(folder_ / "run/metrics.jsonl");
  EXPECT_EQ(count(metrics, "\"samples\":0,"), 24 + 2 * 8);
  EXPECT_EQ(count(metrics, "\"skipped\":true"), 24 + 2 * 8);
  // By each worker. A norm is of what is updated.
  EXPECT_EQ(count(outcome.out, " loss nan mean nan norm -0x1p+0 left out 2 "), 2 * (24 + 2 * 8));
  EXPECT_EQ(count(metrics, "\"grad_norm\":"), 2 * 16);
  EXPECT_EQ(count(outcome.out, "Loss: nan"), 0) << outcome.out;
}

TEST_F(Updates, OneThatIsNoNumberIsLeftOutAlone) {
  const Outcome outcome = launched(2, "nan-skip");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(count(outcome.out,
                  "Step [5/12], Update [2/3]: the loss of virtual worker 1 is nan; "
                  "the update is left out"),
            1)
      << outcome.out;
  const std::string metrics = read_text(folder_ / "run/metrics.jsonl");
  EXPECT_EQ(count(metrics, "\"skipped\":true"), 2);
  EXPECT_EQ(count(metrics, "grad_norm"), 0);
  EXPECT_EQ(count(outcome.out, "result 4.1 "), 2);
  EXPECT_EQ(count(outcome.out, " norm -0x1p+0 left out 1 "), 2 * 2);
  const Outcome stopped = launched(2, "nan-stop");
  EXPECT_EQ(stopped.code, 65) << stopped.err;
  EXPECT_NE(stopped.err.find("step 4, update 1"), std::string::npos) << stopped.err;
}

TEST_F(Updates, ThatMakeNoSenseAreRefused) {
  expect_refused("too-few", "run() was given 2 updates, and RunOptions::updates_per_step is 3");
  expect_refused("one", "run() was given 1 update, and RunOptions::updates_per_step is 3");
  expect_refused("twice", "'of_a' twice in one update");
  expect_refused("none", "an update of no optimizer");
  expect_refused("no-loss", "an update without a loss");
  expect_refused("trainer", "a Trainer's step is one update");
  expect_refused("trainer-absent", "got an undefined tensor");
  expect_refused("opens-twice", "a program has one run");
  expect_refused("librarys-name", "'lockstep.step'");
}

TEST_F(Updates, ThatDifferBetweenWorkersAreTold) {
  expect_refused("list-by-rank", "step 3, update 1: run() was given ");
  expect_refused("order-by-rank",
                 "'of_a', 'of_b' in the worker of virtual worker 0, and 'of_b', "
                 "'of_a' in the worker of");
  // Word of the order is left to who inherits the share.
  const Outcome outcome =
      launched(3, "order-by-rank", {"--inject", "kill rank=1 txn=9 phase=forward"});
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("'of_b', 'of_a' in the worker that had this share before"),
            std::string::npos)
      << outcome.err;
}

TEST_F(Updates, NeedNoData) {
  for (const char* name : {"free-40", "free-updates-40"}) {
    const std::string whole = hash_in(launched(1, name));
    for (const int workers : {2, 3}) {
      const Outcome outcome =
          launched(workers, name, {"--inject", "kill rank=1 txn=16 phase=backward"});
      EXPECT_EQ(killed_in(outcome), 1) << name << ": " << outcome.err;
      EXPECT_EQ(hash_in(outcome), whole) << name << ": " << outcome.err;
    }
  }
}

// No epoch is known of: neither in lines nor in records. The rest is as if it had never ended.
TEST_F(Updates, WithoutDataARunMayGoOn) {
  const std::string whole = hash_in(launched(1, "free-40"));
  const Outcome first = launched(3, "free-20");
  EXPECT_NE(first.out.find("Step [10/20], Loss: "), std::string::npos) << first.out;
  EXPECT_NE(first.out.find("The run ends here, at step 20 (--max-steps)"), std::string::npos);
  EXPECT_EQ(first.out.find("Epoch"), std::string::npos) << first.out;
  EXPECT_EQ(first.err.find("no share has asked"), std::string::npos) << first.err;
  const Outcome rest = run(command(2, "free-40"));
  EXPECT_EQ(hash_in(rest), whole) << rest.err;
  const std::string metrics = read_text(folder_ / "run/metrics.jsonl");
  EXPECT_EQ(count(metrics, "\"samples\":4,"), 40) << metrics;
  EXPECT_EQ(count(metrics, "epoch"), 0);
  const Outcome endless = launched(2, "free");
  EXPECT_EQ(endless.code, 0) << endless.err;
  EXPECT_NE(endless.out.find("The run ends here, at step 8 (by the program)"), std::string::npos)
      << endless.out;
  expect_refused("free-asks", "Share::batch() in a run without data");
}

// An heir has the batch as the data set gives it.
TEST_F(Updates, ABatchThatALossWritesToIsFound) {
  for (const int workers : {1, 2}) {
    const Outcome outcome = launched(workers, "in-place");
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("step 0, update 1: the loss of virtual worker 0 is "),
              std::string::npos)
        << outcome.err;
  }
}

}  // namespace
}  // namespace lockstep::test

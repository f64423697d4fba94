// What shares add up by name, of a Trainer's epochs (epochs_worker.cpp).
#include <algorithm>
#include <cstdio>
#include <sstream>

#include "loops/epochs_runs.h"

namespace lockstep::test {
namespace {

class EpochSums : public Epochs {};

// Of each epoch the mean of what all its shares have added; the best is the greatest mean.
TEST_F(EpochSums, WhatSharesAddIsOfTheEpochAndSaysWhichIsTheBest) {
  const Run one = alone({"by-sum"});
  ASSERT_EQ(one.outcome.code, 0) << one.outcome.err;
  std::istringstream lines(one.lines);
  double steps = 0, inputs = 0, best = -1e9;
  int epochs = 0, best_epoch = -1;
  for (std::string line; std::getline(lines, line);) {
    double distance = 0, sum = 0;
    long count = 0, none = 0;
    const auto at = line.find("; sums distance ");
    if (at == line.npos) continue;
    ASSERT_EQ(std::sscanf(line.c_str() + at, "; sums distance %la/%ld inputs %la/%ld", &distance,
                          &count, &sum, &none),
              4)
        << line;
    if (line.starts_with("step ")) {
      EXPECT_EQ(count, 3 * 2) << line;
      steps += distance;
      inputs += sum;
      continue;
    }
    EXPECT_EQ(distance, steps) << line;
    EXPECT_EQ(sum, inputs) << line;
    EXPECT_EQ(count, 24) << line;
    EXPECT_EQ(line.find(" third 0x1.8p+3/12") != line.npos, epochs % 3 == 2) << line;
    steps = inputs = 0;
    if (distance / 24 > best) best_epoch = epochs;
    best = std::max(best, distance / 24);
    char told[64];
    std::snprintf(told, sizeof told, " best %a in %d, ", best, best_epoch);
    EXPECT_NE(line.find(told), line.npos) << told << " in " << line;
    ++epochs;
  }
  EXPECT_EQ(epochs, kEpochs);
  EXPECT_LT(best_epoch, kEpochs - 1);
  const std::string metrics = read_text(folder_ / "alone/metrics.jsonl");
  EXPECT_EQ(count(metrics, "],\"third\":[12,12]}}\n"), 2) << metrics;
  for (const char* fault : {"rank=0 txn=8 phase=backward", "rank=1 txn=10 phase=evaluate"}) {
    const Run killed = launched(std::string("by-sum") + fault[5],
                                {"--inject", std::string("kill ") + fault}, {"by-sum"});
    EXPECT_EQ(killed_in(killed.outcome), 1) << killed.outcome.err;
    EXPECT_EQ(killed.lines, one.lines) << fault;
    EXPECT_EQ(killed.best, one.best) << fault;
    EXPECT_EQ(read_text(folder_ / (std::string("by-sum") + fault[5]) + "/metrics.jsonl"), metrics);
  }
  const Run stopped = launched("stopped-by-sum", {}, {"by-sum", "stops"});
  EXPECT_NE(stopped.lines.find("at step 4 of 4 of epoch 3 (by the program)"), std::string::npos)
      << stopped.lines;
}

TEST_F(EpochSums, ThatMakeNoSenseAreRefused) {
  for (const auto& [word, code, message] :
       {std::tuple{"unknown-sum", 2,
                   "epoch 0: Trainer::best(\"distanse\"), but no share has added anything by "
                   "that name (Share::add()); added was 'distance', 'inputs'. "},
        {"loss-sum", 2, "Trainer::best() with the name 'loss', which metrics.jsonl uses itself"},
        {"batch-sum", 2, "and the loss is one of a batch"},
        {"many-sums", 2, "step 3, with the epoch's steps before: shares add 18 names"}}) {
    const Run one = seen(word, run(program(word, {word})));
    EXPECT_EQ(one.outcome.code, code) << one.outcome.err;
    EXPECT_EQ(count(one.outcome.err, message), 1) << one.outcome.err;
    const Run three = launched(std::string(word) + "-3", {}, {word});
    EXPECT_EQ(three.outcome.code, code) << three.outcome.err;
    EXPECT_GE(count(three.outcome.err, message), 1) << three.outcome.err;
  }
}

}  // namespace
}  // namespace lockstep::test

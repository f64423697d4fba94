// What the tests of examples share: runs of an example with four virtual workers, killed in each
// phase, killed whole and begun again, and beside the plain loop that the example is.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "support/child.h"
#include "support/output.h"

namespace lockstep::test {

class ExampleRun : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  // The example, and options of a short run of it.
  ExampleRun(const std::string& program, const Words& options) : program_{program} {
    program_.insert(program_.end(), options.begin(), options.end());
    program_.insert(program_.end(), {"--virtual-workers", "4", "--output", folder_ / "run"});
  }

  // A new run; options are the launcher's.
  Outcome launched(int workers, const Words& options = {}) const {
    std::filesystem::remove_all(folder_ / "run");
    return again(workers, options);
  }
  Outcome again(int workers, const Words& options = {}) const {
    Words words{LOCKSTEP_PROGRAM, "run", "--standalone", "--nproc-per-node",
                std::to_string(workers)};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), program_.begin(), program_.end());
    return run(words);
  }

  // What runs that end alike have in common.
  virtual std::string end_of(const Outcome& outcome) const { return hash_in(outcome); }

  // In each phase of these transactions.
  static Words in_each_phase(const Words& txns) {
    Words moments;
    for (const std::string& txn : txns)
      for (const char* phase : {"data", "forward", "backward", "exchange", "optimizer"})
        moments.push_back("txn=" + txn + " phase=" + phase);
    return moments;
  }
  // One run, whoever dies at which of these moments: each with 1 and 3 workers, or with 2 and 4;
  // where `apart` is 4, each with one of these numbers.
  void expect_one_end_whoever_dies(const Words& moments, int apart = 2) const {
    const Outcome whole = launched(4);
    ASSERT_EQ(whole.code, 0) << whole.err;
    int round = 0;
    for (const std::string& moment : moments)
      for (int workers = 1 + round++ % apart; workers <= 4; workers += apart) {
        const std::string fault = "kill rank=" + std::to_string(round % workers) + " " + moment;
        const Outcome outcome = launched(workers, {"--max-restarts", "1", "--inject", fault});
        EXPECT_EQ(outcome.code, 0) << fault << ": " << outcome.err;
        EXPECT_EQ(killed_in(outcome), 1) << workers << ", " << fault << ": " << outcome.err;
        EXPECT_EQ(end_of(outcome), end_of(whole)) << workers << ", " << fault;
      }
  }
  // Begun with 3 workers, and with 2 again once all have died at this moment. Whoever stands still
  // for a second at transaction `stopped`, before, is waited for, and a checkpoint is written
  // meanwhile.
  void expect_one_end_after_all_have_died(const std::string& stopped,
                                          const std::string& moment) const {
    const Outcome whole = launched(3);
    const Outcome killed =
        launched(3, {"--max-restarts", "0", "--inject",
                     "stop rank=2 txn=" + stopped + "; kill " + moment + " repeat=3"});
    EXPECT_NE(killed.code, 0);
    const Outcome rest = again(2);
    EXPECT_EQ(rest.code, 0) << rest.err;
    EXPECT_NE(rest.err.find("resuming from"), std::string::npos) << rest.err;
    EXPECT_EQ(end_of(rest), end_of(whole));
  }

  // What `plain` prints, which is given the checkpoint at that transaction and these words, are the
  // losses in the order of the run's metrics, and that the checkpoint's parameters are its own.
  // Returns the records.
  Words expect_the_plain_loop(const Outcome& outcome, const std::string& plain, int txns,
                              const Words& words) const {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    const std::string number = std::to_string(txns);
    Words command{plain,
                  folder_ / "run/checkpoints/step-" + std::string(8 - number.size(), '0') + number};
    command.insert(command.end(), words.begin(), words.end());
    const Outcome loop = run(command);
    EXPECT_EQ(loop.code, 0) << loop.err;
    EXPECT_EQ(count(loop.out, "differs"), 0) << loop.out;
    EXPECT_EQ(count(loop.out, "compared"), 1) << loop.out;
    std::istringstream losses(loop.out), metrics(read_text(folder_ / "run/metrics.jsonl"));
    Words records;
    std::string loss, record;
    while (std::ssize(records) < txns && std::getline(losses, loss) &&
           std::getline(metrics, record)) {
      EXPECT_TRUE(equal(loss_in(record), std::stod(loss))) << loss << ", " << record;
      records.push_back(record);
    }
    EXPECT_EQ(std::ssize(records), txns);
    return records;
  }

  void TearDown() override {
    EXPECT_TRUE(processes_with(folder_.path()).empty()) << "a process is left behind";
  }
  TempFolder folder_;

 private:
  // Of an update in which nobody took part: NaN.
  static double loss_in(const std::string& record) {
    const auto at = record.find("\"loss\":");
    if (at == std::string::npos) return std::numeric_limits<double>::infinity();
    const std::string text = record.substr(at + 7);
    return text.starts_with("null") ? std::numeric_limits<double>::quiet_NaN() : std::stod(text);
  }
  static bool equal(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }
  Words program_;
};

}  // namespace lockstep::test

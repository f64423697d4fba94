// What tests of a worker's cases share: runs of it under the launcher, `WORKER CASE RUN_DIR`.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "support/child.h"
#include "support/held_steps.h"
#include "support/output.h"

namespace lockstep::test {

class WorkerRun : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  explicit WorkerRun(std::string worker) : worker_(std::move(worker)) {}

  // `options` are the launcher's, `more` the worker's.
  Words command(int workers, const std::string& name, const Words& options = {},
                const Words& more = {}) const {
    Words words{LOCKSTEP_PROGRAM, "run", "--standalone", "--nproc-per-node",
                std::to_string(workers)};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {worker_, name, folder_ / "run"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // Of the run that is there, or a new one.
  Outcome again(int workers, const std::string& name, const Words& options = {},
                const Words& more = {}) const {
    return run(command(workers, name, options, more));
  }
  // A new run.
  Outcome launched(int workers, const std::string& name, const Words& options = {},
                   const Words& more = {}) const {
    std::filesystem::remove_all(folder_ / "run");
    return again(workers, name, options, more);
  }
  // The same, with a fault before its step `first`; that one and later ones wait until its standard
  // error has `text`.
  Outcome held(int first, const std::string& text, int workers, const std::string& name,
               const std::string& fault, const Words& more = {}) const {
    std::filesystem::remove_all(folder_ / "run");
    Outcome outcome =
        run_held(folder_ / "run", first, text, command(workers, name, {"--inject", fault}, more));
    EXPECT_NE(outcome.err.find(text), std::string::npos)
        << name << ", " << fault << ": " << outcome.err;
    return outcome;
  }
  void expect_refused(const char* name, const std::string& words, int code = 2) const {
    const Outcome outcome = launched(2, name);
    EXPECT_EQ(outcome.code, code) << name << ": " << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << name << ": " << outcome.err;
  }
  void TearDown() override {
    EXPECT_TRUE(processes_with(folder_.path()).empty()) << "a process is left behind";
  }

  const std::string worker_;
  TempFolder folder_;
};

}  // namespace lockstep::test

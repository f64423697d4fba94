// Runs of epochs_worker.cpp, and what is there afterwards: lines, files, the best checkpoint.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>

#include "support/child.h"
#include "support/held_steps.h"
#include "support/output.h"

namespace lockstep::test {

inline constexpr int kSteps = 4, kEpochs = 6;  // and two more transactions an epoch

class Epochs : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;
  struct Run {
    Outcome outcome;
    std::string lines;                         // but for the time it took
    std::map<std::string, std::string> files;  // by name
    std::string writers;                       // the epoch of each time that somebody wrote
    std::string best;                          // the checkpoint it points to, if it is there
  };

  std::string files(const std::string& name) const { return folder_ / name + "-files"; }
  Words program(const std::string& name, const Words& how) {
    std::filesystem::create_directories(files(name));
    Words words{EPOCHS_WORKER, folder_ / name, files(name)};
    words.insert(words.end(), how.begin(), how.end());
    return words;
  }
  Words launcher(const std::string& name, const Words& options, const Words& how) {
    Words words{LOCKSTEP_PROGRAM, "run", "--nproc-per-node", "3"};
    words.insert(words.end(), options.begin(), options.end());
    for (const std::string& word : program(name, how)) words.push_back(word);
    return words;
  }
  Run seen(const std::string& name, Outcome outcome) {
    Run result;
    result.lines = std::regex_replace(outcome.out, std::regex("Training complete in: .*\n"), "");
    for (const auto& entry : std::filesystem::directory_iterator(files(name)))
      result.files[entry.path().filename()] = read_text(entry.path());
    result.writers = read_text(files(name) + ".writers");
    const std::string checkpoints = folder_ / name + "/checkpoints/";
    if (std::filesystem::exists(checkpoints + "best")) {
      result.best = read_text(checkpoints + "best");
      result.best.pop_back();
      EXPECT_TRUE(std::filesystem::exists(checkpoints + result.best + "/manifest.json"));
    }
    result.outcome = std::move(outcome);
    return result;
  }
  Run alone(const Words& how = {}) { return seen("alone", run(program("alone", how))); }
  Run launched(const std::string& name, const Words& options = {}, const Words& how = {}) {
    return seen(name, run(launcher(name, options, how)));
  }
  void TearDown() override {
    EXPECT_TRUE(processes_with(folder_.path()).empty()) << "a process is left behind";
  }
  TempFolder folder_;
};

}  // namespace lockstep::test

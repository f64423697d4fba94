// What the launcher's tests share: the paths of the programs and a run of toy workers.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "support/child.h"
#include "support/held_steps.h"

namespace lockstep::test {

// Numbers of lines "step N" in a launcher's standard output.
inline std::vector<int> steps_in(const std::string& out) {
  std::vector<int> steps;
  std::istringstream lines(out);
  std::string line;
  while (std::getline(lines, line))
    if (int step = 0; std::sscanf(line.c_str(), "step %d", &step) == 1) steps.push_back(step);
  return steps;
}

inline std::vector<int> count_to(int n) {
  std::vector<int> numbers;
  for (int i = 0; i < n; ++i) numbers.push_back(i);
  return numbers;
}

// A run of toy workers in a directory of its own; at the end nothing of it may be left.
class ToyRun : public ::testing::Test {
 protected:
  using Words = std::vector<std::string>;

  Words command(const Words& launcher_options, const Words& toy_options,
                const std::string& name = "run") const {
    Words toy{TOY_WORKER, "--run-dir", run_dir(name)};
    toy.insert(toy.end(), toy_options.begin(), toy_options.end());
    return command_of(launcher_options, toy);
  }
  // The same for any program.
  Words command_of(const Words& launcher_options, const Words& program) const {
    Words words{LOCKSTEP_PROGRAM, "run"};
    words.insert(words.end(), launcher_options.begin(), launcher_options.end());
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }
  // A program of the test's own; its path.
  std::string script(const std::string& name, const std::string& text) const {
    const std::string path = folder_.write(name, text);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path;
  }
  std::string run_dir(const std::string& name = "run") const { return folder_ / name; }

  // The state that `txns` transactions of `shares` shares lead to, by one worker without the
  // launcher.
  std::string expected(const std::string& txns, const std::string& shares = "4") const {
    const Outcome alone = run({TOY_WORKER, "--run-dir", run_dir("alone-" + txns + "-" + shares),
                               "--txns", txns, "--shares", shares});
    EXPECT_EQ(alone.code, 0) << alone.err;
    return last_line(alone.out);
  }

  // Runs the toy, expects success, and returns the last line of its output.
  Outcome finish(const Words& launcher_options, const Words& toy_options,
                 const std::string& name = "run") const {
    Outcome outcome = run(command(launcher_options, toy_options, name));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome;
  }

  // The same; the steps from `first` on wait until its standard error has `text`.
  Outcome finish_held(int first, const std::string& text, const Words& launcher_options,
                      const Words& toy_options) const {
    Outcome outcome = run_held(run_dir(), first, text, command(launcher_options, toy_options));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.err.find(text), std::string::npos) << outcome.err;
    return outcome;
  }

  int incidents(const std::string& name = "run") const {
    int count = 0;
    std::error_code error;
    for ([[maybe_unused]] const auto& entry :
         std::filesystem::directory_iterator(run_dir(name) + "/incidents", error))
      ++count;
    return count;
  }

  void TearDown() override {
    EXPECT_TRUE(processes_with(folder_.path()).empty()) << "a process is left behind";
    std::error_code error;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_.path(), error)) {
      EXPECT_FALSE(entry.is_socket()) << entry.path();
      EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp-")) << entry.path();
    }
  }

  TempFolder folder_;
};

}  // namespace lockstep::test

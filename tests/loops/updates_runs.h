// Runs of updates_worker.cpp.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "support/child.h"
#include "support/output.h"
#include "support/until.h"

namespace lockstep::test {

class Updates : public ::testing::Test {
 protected:
  std::vector<std::string> command(int workers, const std::string& name,
                                   const std::vector<std::string>& options = {}) const {
    std::vector<std::string> words{LOCKSTEP_PROGRAM, "run", "--standalone", "--nproc-per-node",
                                   std::to_string(workers)};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {UPDATES_WORKER, name, folder_ / "run"});
    return words;
  }
  Outcome launched(int workers, const std::string& name,
                   const std::vector<std::string>& options = {}) const {
    std::filesystem::remove_all(folder_ / "run");
    return run(command(workers, name, options));
  }
  // What run() gave, each of whose lines all workers have alike.
  std::string metrics() const { return read_text(folder_ / "run/metrics.jsonl"); }
  static std::set<std::string> results_in(const Outcome& outcome) {
    std::set<std::string> results;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("result ")) results.insert(line);
    return results;
  }
  void expect_refused(const char* name, const char* words) const {
    const Outcome outcome = launched(2, name);
    EXPECT_EQ(outcome.code, 2) << name << ": " << outcome.err;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << name << ": " << outcome.err;
  }
  // Waits until a worker has stopped, and continues it after `meanwhile`.
  template <class Call>
  void while_stopped(Call meanwhile) const {
    const auto stopped = [&]() -> pid_t {
      for (const pid_t pid : processes_with(folder_.path()))
        if (read_text("/proc/" + std::to_string(pid) + "/stat").find(") T ") != std::string::npos)
          return pid;
      return 0;
    };
    pid_t pid = 0;
    ASSERT_TRUE(until([&] { return (pid = stopped()) != 0; }));
    meanwhile();
    ::kill(pid, SIGCONT);
  }
  void scale_while_stopped(int workers) const {
    while_stopped([&] {
      const Outcome scaled =
          run({LOCKSTEP_PROGRAM, "scale", folder_ / "run", std::to_string(workers)});
      EXPECT_EQ(scaled.code, 0) << scaled.err;
    });
  }
  // By step, who has computed its shares; in each of its updates the same.
  std::map<int, std::set<pid_t>> owners() const {
    std::map<int, std::set<pid_t>> owners;
    std::map<std::pair<int, int>, pid_t> of_share;
    std::istringstream lines(read_text(folder_ / "run/owners"));
    int step = 0, update = 0, share = 0;
    for (pid_t pid = 0; lines >> step >> update >> share >> pid;) {
      if (step == 0) continue;  // in the rehearsal others do so, too
      owners[step].insert(pid);
      EXPECT_EQ(of_share.try_emplace({step, share}, pid).first->second, pid)
          << "step " << step << ", update " << update << ", share " << share;
    }
    return owners;
  }
  void TearDown() override {
    EXPECT_TRUE(processes_with(folder_.path()).empty()) << "a process is left behind";
  }
  TempFolder folder_;
};

}  // namespace lockstep::test

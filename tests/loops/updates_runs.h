// Runs of updates_worker.cpp.
#pragma once

#include <map>
#include <set>
#include <sstream>

#include "support/stopped.h"
#include "support/until.h"
#include "worker_run.h"

namespace lockstep::test {

class Updates : public WorkerRun {
 protected:
  Updates() : WorkerRun(UPDATES_WORKER) {}

  // What run() gave, each of whose lines all workers have alike.
  std::string metrics() const { return read_text(folder_ / "run/metrics.jsonl"); }
  static std::set<std::string> results_in(const Outcome& outcome) {
    std::set<std::string> results;
    std::istringstream lines(outcome.out);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with("result ")) results.insert(line);
    return results;
  }
  // Waits until a worker has stopped, and continues it after `meanwhile`.
  template <class Call>
  void while_stopped(Call meanwhile) const {
    test::while_stopped(folder_.path(), meanwhile);
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
      owners[step].insert(pid);
      EXPECT_EQ(of_share.try_emplace({step, share}, pid).first->second, pid)
          << "step " << step << ", update " << update << ", share " << share;
    }
    return owners;
  }
};

}  // namespace lockstep::test

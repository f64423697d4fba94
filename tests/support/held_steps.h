// A run that waits for its test: for a newcomer above all, which comes in with a step, however slow
// the machine is, and not behind the last one. While RUN_DIR-held is there, each step from the one
// on that it names waits until it is removed: for 100 ms unless the test says otherwise, each for
// twice as long as the one before, up to 2 s. Whoever waits makes RUN_DIR-waits.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "support/child.h"
#include "support/until.h"

namespace lockstep::test {

// The worker's part, before or in each step: once for each.
inline void hold_step(const std::string& run_dir, std::int64_t step) {
  static std::int64_t held = -1;
  if (std::exchange(held, step) == step) return;
  std::int64_t first = 0, wait_ms = 0;
  const auto is_free = [&] {
    return !(std::ifstream(run_dir + "-held") >> first >> wait_ms) || step < first;
  };
  if (is_free()) return;
  std::ofstream(run_dir + "-waits").flush();
  const std::int64_t most = std::max<std::int64_t>(wait_ms, 2000);
  until(is_free, std::chrono::milliseconds(
                     std::min(wait_ms << std::min<std::int64_t>(step - first, 10), most)));
}

// The test's: as long as the object lives, or until release().
class Hold {
 public:
  Hold(std::string run_dir, std::int64_t first,
       std::chrono::milliseconds wait = std::chrono::milliseconds(100))
      : run_dir_(std::move(run_dir)) {
    std::filesystem::remove(run_dir_ + "-waits");
    from(first, wait);
  }
  ~Hold() { release(); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

  // Those before it may go on.
  void from(std::int64_t first, std::chrono::milliseconds wait = std::chrono::milliseconds(100)) {
    std::ofstream(run_dir_ + "-held.new") << first << ' ' << wait.count() << std::flush;
    std::filesystem::rename(run_dir_ + "-held.new", run_dir_ + "-held");
  }
  void release() { std::filesystem::remove(run_dir_ + "-held"); }
  // Until one of them waits.
  bool reached() const {
    return until([&] { return std::filesystem::exists(run_dir_ + "-waits"); });
  }

 private:
  const std::string run_dir_;
};

// The run in that directory, whose steps from `first` on wait until its standard error has `text`.
inline Outcome run_held(const std::string& run_dir, std::int64_t first, const std::string& text,
                        const std::vector<std::string>& command,
                        const Child::Variables& variables = {}) {
  Hold hold(run_dir, first);
  Child job(command, variables);
  until([&] { return job.err().find(text) != std::string::npos || job.has_ended(); });
  hold.release();
  return job.wait();
}

}  // namespace lockstep::test

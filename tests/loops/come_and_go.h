// What rehearsal_worker needs of who comes in and who goes.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "lockstep/step.h"
#include "support/until.h"

// A worker that leaves, and is late: stopped (--inject) in each step behind its share, it is woken
// in the next by rank 1; once the others' table is without it, by rank 0 four steps later, as that
// is in the midst of its shares. What the loop sets each step changes every four steps.
class LateLeaver {
 public:
  LateLeaver(int rank, std::string path) : path_(std::move(path)), rank_(rank) {
    if (rank_ == 2) std::ofstream(path_) << ::getpid();
  }
  // In each share's closure.
  void wake(lockstep::Share& share) {
    const std::int64_t v = share.virtual_worker();
    if (rank_ == 1 && v == 1 && share.global_step() > 0) wake();
    if (rank_ == 0 && v == 1 && ++without_ == 20) end(share.global_step() + 2);
    if (rank_ == 0 && v == 0 && without_ == 3) {
      wake();
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
    std::int64_t last = 0;
    if (std::ifstream(path_ + ".end") >> last && share.global_step() == last) share.end_run();
  }

 private:
  // In a step to come, so that all shares of it say the same, whoever computes them.
  void end(std::int64_t step) const {
    std::ofstream(path_ + ".new") << step << std::flush;
    std::filesystem::rename(path_ + ".new", path_ + ".end");
  }
  void wake() const {
    long pid = 0;
    std::ifstream(path_) >> pid;
    const std::string stat = "/proc/" + std::to_string(pid) + "/stat";
    const bool is_stopped_or_gone = lockstep::test::until([&] {
      std::string name, state;
      return !(std::ifstream(stat) >> pid >> name >> state) || state == "T";
    });
    if (!is_stopped_or_gone) std::abort();
    if (pid > 0) ::kill(static_cast<pid_t>(pid), SIGCONT);
  }
  std::string path_;  // of a file with the leaver's process, and how those begin that go with it
  int rank_, without_ = 0;
};

struct Newcomer {
  int rank, share;  // its own, the last that it computes
};
// In its first share's closure the eldest dies as soon as that one has come in.
inline void die_with_a_newcomer(int rank, const Newcomer& newcomer, const std::string& sign,
                                const lockstep::Share& share) {
  if (rank == newcomer.rank && share.virtual_worker() == newcomer.share && share.global_step() > 6)
    std::ofstream(sign).flush();
  if (rank != 0 || share.virtual_worker() != 0) return;
  const auto wait = std::chrono::milliseconds(share.global_step() > 6 ? 300 : 0);
  lockstep::test::until([&] { return std::filesystem::exists(sign); }, wait);
  if (std::filesystem::remove(sign)) ::kill(::getpid(), SIGKILL);
}

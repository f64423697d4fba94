// A real process saves in a loop and is SIGKILLed at any moment; what it leaves is always good.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <random>
#include <thread>

#include "unit/checkpoint/samples.h"

namespace lockstep::checkpoint {
namespace {

constexpr int kKills = 200;
constexpr std::size_t kScale = 300;  // 54 kB per checkpoint

// In the child: saves step after step until it is killed.
[[noreturn]] void save_for_ever(const std::string& run_dir, std::uint64_t txn) {
  Writer writer(posix_env(), {.run_dir = run_dir,
                              .run_identity = "run-a",
                              .virtual_workers = 3,
                              .keep_last = 2,
                              .gate = {},
                              .done = {}});
  for (;; ++txn) {
    const Sample sample(txn, kScale);
    const auto taken = writer.snapshot(sample.parts(), sample.state(), {txn, 0, txn}, 1,
                                       WhenBusy::kWait, Deadline::in(std::chrono::seconds(20)));
    if (!taken.ok() || !writer.wait(Deadline::in(std::chrono::seconds(20))).ok()) ::_exit(1);
  }
}

TEST(CheckpointKill, TwoHundredTimes) {
  const test::TempFolder folder;
  std::mt19937_64 random(7);
  std::uint64_t last = 0;
  int leftovers = 0, fruitless = 0;
  const Deadline deadline = Deadline::in(std::chrono::minutes(2));
  const auto met_enough = [&] { return last > 20 && leftovers > 10; };
  for (int kill = 0; kill < kKills || (!met_enough() && !deadline.passed()); ++kill) {
    const pid_t parent = ::getpid();
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      save_for_ever(folder.path(), last + 1);
    }
    // On a busy machine a child may need longer to save at all.
    const int patience = 1 + fruitless / 8;
    std::this_thread::sleep_for(patience * std::chrono::microseconds(2000 + random() % 25000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the saving process ended by itself";
    const std::string checkpoints = checkpoints_dir(folder.path());
    const auto names = posix_env().list(checkpoints);  // fails only before the first save
    if (names.ok())
      for (const std::string& name : *names) leftovers += name[0] == '.';
    ASSERT_TRUE(remove_unpublished(posix_env(), folder.path()).ok());
    Sample loaded(0, kScale);
    const auto targets = loaded.targets();
    const auto search = load_newest(posix_env(), folder.path(), {"run-a", 3}, targets);
    ASSERT_TRUE(search.ok()) << search.error().message;
    ASSERT_TRUE(search->skipped.empty()) << search->skipped[0].reason;
    ASSERT_TRUE(search->newest || last == 0) << "kill " << kill;
    ++fruitless;
    if (!search->newest) continue;
    const std::uint64_t txn = search->newest->manifest.cursor.txn;
    ASSERT_GE(txn, last);
    if (txn > last) fruitless = 0;
    ASSERT_EQ(loaded, Sample(txn, kScale));
    last = txn;
  }
  EXPECT_GT(last, 20U) << "too few checkpoints for a test";
  EXPECT_GT(leftovers, 10) << "the kills never met a save";
}

}  // namespace
}  // namespace lockstep::checkpoint

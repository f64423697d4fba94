// Every call to the disk fails in turn, or power fails there: an old or the new checkpoint is
// always there, whole.
#include <gtest/gtest.h>

#include "support/checkpoint_fault_env.h"
#include "unit/checkpoint/samples.h"

namespace lockstep::checkpoint {
namespace {

using testing::MemoryEnv;

constexpr std::uint64_t kMaxCalls = 200;  // far more than a save has

// A run with steps 10 and 20 saved and known to be on storage.
std::unique_ptr<MemoryEnv> prepared() {
  auto env = std::make_unique<MemoryEnv>();
  EXPECT_TRUE(env->make_dirs("run").ok());
  EXPECT_TRUE(env->sync_dir("").ok());
  EXPECT_TRUE(save(*env, "run", Sample(10), 10).ok());
  EXPECT_TRUE(save(*env, "run", Sample(20), 20).ok());
  return env;
}

// Step 30 as the writer saves it; true: reported as saved.
bool save_next(Env& env, std::uint64_t txn = 30) {
  Writer writer(env, {.run_dir = "run",
                      .run_identity = "run-a",
                      .virtual_workers = 3,
                      .keep_last = 1,
                      .gate = {},
                      .done = {}});
  const Sample sample(txn);
  const Deadline deadline = Deadline::in(std::chrono::seconds(20));
  EXPECT_TRUE(writer
                  .snapshot(sample.parts(), sample.state(), {txn, txn / 10, txn % 10}, 1,
                            WhenBusy::kWait, deadline)
                  .ok());
  return writer.wait(deadline).ok();
}

// What the next start does, and what it must find.
void check_start(Env& env, bool saved, const std::string& where) {
  ASSERT_TRUE(remove_unpublished(env, "run").ok()) << where;
  Sample loaded(1);
  const auto targets = loaded.targets();
  const auto search = load_newest(env, "run", {"run-a", 3}, targets);
  ASSERT_TRUE(search.ok()) << where << search.error().message;
  ASSERT_TRUE(search->newest) << where;
  const std::uint64_t txn = search->newest->manifest.cursor.txn;
  EXPECT_TRUE(txn == 30 || (!saved && txn == 20)) << where << txn;
  EXPECT_TRUE(search->skipped.empty()) << where << search->skipped[0].reason;
  EXPECT_EQ(loaded, Sample(txn)) << where;
  const auto names = env.list("run/checkpoints");
  ASSERT_TRUE(names.ok());
  for (const std::string& name : *names) EXPECT_NE(name.front(), '.') << where << name;
  // And life goes on.
  EXPECT_TRUE(save_next(env)) << where;
}

void fail_each_call(bool from_then_on) {
  std::uint64_t n = 1;
  for (; n < kMaxCalls; ++n) {
    const auto env = prepared();
    env->fail_at(n, from_then_on);
    const bool saved = save_next(*env);
    const bool clean = env->calls() < n;
    env->fail_at(0, false);
    check_start(*env, saved, "call " + std::to_string(n) + ": ");
    if (clean) {
      EXPECT_TRUE(saved);
      break;
    }
  }
  EXPECT_GT(n, 20U);
  EXPECT_LT(n, kMaxCalls) << "the enumeration never came to its end";
}

TEST(CheckpointFaults, EachCallFailsOnce) { fail_each_call(false); }
TEST(CheckpointFaults, EachCallFailsAndAllAfterIt) { fail_each_call(true); }

TEST(CheckpointFaults, NothingIsLeftBehindWhenOnlyOneCallFails) {
  for (std::uint64_t n = 1; n < 20; ++n) {
    const auto env = prepared();
    env->fail_at(n, false);
    if (save_next(*env)) continue;
    const auto names = env->list("run/checkpoints");
    ASSERT_TRUE(names.ok());
    for (const std::string& name : *names) EXPECT_NE(name.front(), '.') << n << " " << name;
  }
}

TEST(CheckpointFaults, PowerFailsAtEachCall) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    std::uint64_t n = 1;
    for (; n < kMaxCalls; ++n) {
      const auto env = prepared();
      env->fail_at(n, true);
      const bool saved = save_next(*env);
      const bool clean = env->calls() < n;
      env->fail_at(0, false);
      if (seed == 0)
        env->crash();
      else
        env->crash(seed * 1000 + n);
      check_start(*env, saved,
                  "seed " + std::to_string(seed) + " call " + std::to_string(n) + ": ");
      if (clean) break;
    }
    EXPECT_LT(n, kMaxCalls);
  }
}

TEST(CheckpointFaults, TheVeryFirstSaveMayFailAnywhereToo) {
  for (std::uint64_t n = 1; n < kMaxCalls; ++n) {
    MemoryEnv env;
    ASSERT_TRUE(env.make_dirs("run").ok());
    ASSERT_TRUE(env.sync_dir("").ok());
    env.fail_at(n, true);
    const bool saved = save_next(env);
    const bool clean = env.calls() < n;
    env.fail_at(0, false);
    env.crash(n);
    ASSERT_TRUE(remove_unpublished(env, "run").ok());
    const auto search = find_newest(env, "run");
    ASSERT_TRUE(search.ok());
    EXPECT_TRUE(search->skipped.empty());
    EXPECT_TRUE(search->newest || !saved) << n;
    if (clean) return;
  }
  FAIL() << "the enumeration never came to its end";
}

}  // namespace
}  // namespace lockstep::checkpoint

// times.jsonl under a clock of the test's own.
#include "rundir/times.h"

#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace lockstep::rundir {
namespace {

// The file system, but for the clock; appends fail when told to.
class ClockEnv final : public Env {
 public:
  std::uint64_t now = 0;
  bool full = false;

  std::uint64_t now_ns() override { return now; }
  double wall_time_s() override { return 0; }
  Result<std::unique_ptr<File>> create(const std::string& path) override {
    return real_.create(path);
  }
  Result<std::unique_ptr<File>> open_append(const std::string& path) override {
    if (full) return Error{ErrorKind::kDisk, "no space"};
    return real_.open_append(path);
  }
  Result<std::string> read(const std::string& path, std::uint64_t limit) override {
    return real_.read(path, limit);
  }
  Status rename(const std::string& a, const std::string& b) override { return real_.rename(a, b); }
  Status remove_all(const std::string& path) override { return real_.remove_all(path); }
  Status make_dirs(const std::string& path) override { return real_.make_dirs(path); }
  Status sync_dir(const std::string& path) override { return real_.sync_dir(path); }
  Status truncate(const std::string& path, std::uint64_t bytes) override {
    return real_.truncate(path, bytes);
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return real_.list(path);
  }
  bool exists(const std::string& path) override { return real_.exists(path); }

 private:
  Env& real_ = posix_env();
};

class TimesTest : public testing::Test {
 protected:
  void add(Times& times, double second, std::uint64_t last, bool epochs_end = false) {
    env_.now = start_ + static_cast<std::uint64_t>(second * 1e9 + 0.5);
    times.add(Txn(last), 3, epochs_end);
  }
  Times open(std::uint64_t next) {
    start_ = env_.now = env_.now + 3'600'000'000'000;  // an hour between launches
    return Times::open(env_, folder_.path(), Txn(0), Txn(next));
  }
  std::string text() const { return folder_.read("times.jsonl"); }

  test::TempFolder folder_;
  ClockEnv env_;
  std::uint64_t start_ = 0;
};

TEST_F(TimesTest, ALineWhereTimeHasGrownAndAtAnEpochsEnd) {
  Times times = open(0);
  add(times, 0.010, 0);
  add(times, 0.025, 3);
  add(times, 0.030, 4);
  add(times, 0.031, 5, true);
  add(times, 100, 90);
  add(times, 100.1, 91);  // less than 0.2 % more
  add(times, 100.5, 95);
  EXPECT_EQ(text(), R"({"txn":3,"run_s":0.025000,"workers":3}
{"txn":5,"run_s":0.031000,"workers":3}
{"txn":90,"run_s":100.000000,"workers":3}
{"txn":95,"run_s":100.500000,"workers":3}
)");
}

TEST_F(TimesTest, AResumeGoesOnFromTheLastLineBelowIt) {
  {
    Times times = open(0);
    add(times, 1, 10);
    add(times, 2, 20);
    add(times, 3, 30);
  }
  Times times = open(25);
  add(times, 0.5, 26);
  EXPECT_EQ(text(), R"({"txn":10,"run_s":1.000000,"workers":3}
{"txn":20,"run_s":2.000000,"workers":3}
{"txn":26,"run_s":2.500000,"workers":3}
)");
  Times again = open(0);  // starts over
  EXPECT_EQ(text(), "");
}

TEST_F(TimesTest, ATornOrForeignLineIsCutOff) {
  folder_.write("times.jsonl", "{\"txn\":4,\"run_s\":1.5,\"workers\":3}\n{\"txn\":5,\"run");
  Times times = open(8);
  add(times, 1, 9);
  EXPECT_EQ(
      text(),
      "{\"txn\":4,\"run_s\":1.5,\"workers\":3}\n{\"txn\":9,\"run_s\":2.500000,\"workers\":3}\n");
}

TEST_F(TimesTest, WhatIsNotKnownIsNotMadeUp) {
  Times times = open(8);  // the file was removed
  add(times, 1, 9, true);
  EXPECT_FALSE(env_.exists(folder_ / "times.jsonl"));
}

TEST_F(TimesTest, AFileThatCannotBeWrittenIsGivenUp) {
  env_.full = true;
  testing::internal::CaptureStderr();
  Times times = open(0);
  add(times, 1, 9);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("times.jsonl' is not kept (no space)"), std::string::npos) << said;
}

}  // namespace
}  // namespace lockstep::rundir

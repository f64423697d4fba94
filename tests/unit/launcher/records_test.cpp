// Records on a disk whose fsync takes as long as the test says.
#include "launcher/linked/records.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <utility>

#include "support/child.h"

namespace lockstep::launcher {
namespace {

using namespace std::chrono_literals;

class SlowFile final : public File {
 public:
  SlowFile(std::unique_ptr<File> file, std::atomic<bool>& slow, std::atomic<int>& waiting,
           std::atomic<bool>& broken)
      : file_(std::move(file)), slow_(slow), waiting_(waiting), broken_(broken) {}
  Status append(std::span<const std::byte> data) override { return file_->append(data); }
  Status sync() override {
    ++waiting_;
    for (const Deadline most = Deadline::in(20s); slow_ && !most.passed();) pause(1ms);
    --waiting_;
    if (broken_) return Error{ErrorKind::kDisk, "fsync: the disk is on fire"};
    return file_->sync();
  }
  Status close() override { return file_->close(); }

 private:
  std::unique_ptr<File> file_;
  std::atomic<bool>& slow_;
  std::atomic<int>& waiting_;
  std::atomic<bool>& broken_;
};

// The file system, but for slow and broken syncs.
class SlowEnv final : public Env {
 public:
  std::atomic<bool> slow = false, broken = false;
  std::atomic<int> waiting = 0;  // syncs under way

  std::uint64_t now_ns() override { return posix_env().now_ns(); }
  double wall_time_s() override { return posix_env().wall_time_s(); }
  Result<std::unique_ptr<File>> create(const std::string& path) override {
    return posix_env().create(path);
  }
  Result<std::unique_ptr<File>> open_append(const std::string& path) override {
    LOCKSTEP_ASSIGN(auto file, posix_env().open_append(path));
    return std::unique_ptr<File>(
        std::make_unique<SlowFile>(std::move(file), slow, waiting, broken));
  }
  Result<std::string> read(const std::string& path, std::uint64_t limit) override {
    return posix_env().read(path, limit);
  }
  Status rename(const std::string& from, const std::string& to) override {
    return posix_env().rename(from, to);
  }
  Status remove_all(const std::string& path) override { return posix_env().remove_all(path); }
  Status make_dirs(const std::string& path) override { return posix_env().make_dirs(path); }
  Status sync_dir(const std::string& path) override { return posix_env().sync_dir(path); }
  Status truncate(const std::string& path, std::uint64_t bytes) override {
    return posix_env().truncate(path, bytes);
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return posix_env().list(path);
  }
  bool exists(const std::string& path) override { return posix_env().exists(path); }
  Result<FileId> file_id(const std::string& path) override { return posix_env().file_id(path); }
};

class RecordsTest : public testing::Test {
 protected:
  RecordsTest() : bytes_(coord::Board(nullptr, kPlan).data_offset()) {
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    EXPECT_TRUE(records_.open(folder_.path(), board(), Txn(0)).ok());
  }
  ~RecordsTest() override {
    env_.slow = false;
    ::munmap(memory_, bytes_);
  }
  coord::Board board() const { return {memory_, kPlan}; }

  // A worker has committed the transactions below this one.
  void commit(std::uint64_t end) {
    coord::WorkerSlot& slot = board().slot(Slot(0));
    for (std::uint64_t txn = slot.applied; txn < end; ++txn) {
      coord::CommitLines& lines = board().lines(Slot(0), Txn(txn));
      const std::string text = "{\"txn\":" + std::to_string(txn) + "}\n";
      std::memcpy(lines.text, text.data(), text.size());
      lines.metrics_bytes = static_cast<std::uint32_t>(text.size());
      lines.mark.store(txn + 1);
    }
    slot.applied.store(end);
  }
  template <class Condition>
  bool until(Condition condition) {
    const Deadline deadline = Deadline::in(10s);
    while (!condition() && !deadline.passed()) loop_.run_once(Deadline::in(1ms));
    return condition();
  }
  std::string metrics() const { return test::read_text(folder_ / "metrics.jsonl"); }

  static constexpr coord::BoardPlan kPlan{1, 1, 64};
  test::TempFolder folder_;
  std::uint64_t bytes_;
  void* memory_;
  SlowEnv env_;
  Loop loop_ = Loop::open().value();
  std::vector<std::uint64_t> synced_;  // transactions, as they are answered
  std::optional<Error> failed_, refused_;
  Records records_{env_,
                   background_,
                   {[](std::string_view) {}, [this](const Error& error) { failed_ = error; },
                    [this](WorkerUid, Txn txn, const std::optional<Error>& error) {
                      synced_.push_back(txn.value());
                      refused_ = error;
                    }}};
  Background background_{loop_};  // ends first
};

TEST_F(RecordsTest, TheLoopGoesRoundWhileTheDiskSyncs) {
  commit(3);
  env_.slow = true;
  const auto begin = std::chrono::steady_clock::now();
  records_.sync(WorkerUid(1), Txn(3));
  ASSERT_TRUE(until([&] { return env_.waiting > 0; }));
  commit(5);
  records_.pump();
  EXPECT_EQ(records_.next(), Txn(5));
  EXPECT_NE(metrics().find("{\"txn\":4}"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  EXPECT_TRUE(synced_.empty());
  env_.slow = false;
  EXPECT_TRUE(until([&] { return !synced_.empty(); }));
  EXPECT_EQ(synced_, std::vector<std::uint64_t>{3});
  EXPECT_FALSE(refused_);
}

// A sync that began before a record was written says nothing of it.
TEST_F(RecordsTest, WhatIsWrittenDuringASyncWaitsForTheNext) {
  commit(3);
  env_.slow = true;
  records_.sync(WorkerUid(1), Txn(3));
  ASSERT_TRUE(until([&] { return env_.waiting > 0; }));
  commit(5);
  records_.sync(WorkerUid(1), Txn(5));
  records_.sync(WorkerUid(1), Txn(7));  // not committed yet
  env_.slow = false;
  ASSERT_TRUE(until([&] { return synced_.size() == 1; }));
  EXPECT_EQ(synced_, std::vector<std::uint64_t>{3});
  env_.slow = true;  // the next one, which may be past its first file
  until([&] { return synced_.size() == 2 || env_.waiting > 0; });
  env_.slow = false;
  ASSERT_TRUE(until([&] { return synced_.size() == 2; }));
  EXPECT_EQ(synced_.back(), 5U);
  for (int i = 0; i < 20; ++i) loop_.run_once(Deadline::in(1ms));
  EXPECT_EQ(synced_.size(), 2U);
  commit(7);
  records_.pump();
  EXPECT_TRUE(until([&] { return synced_.size() == 3; }));
}

TEST_F(RecordsTest, ASyncThatFailsIsToldOnceAndEndsTheRecords) {
  commit(3);
  env_.broken = true;
  records_.sync(WorkerUid(1), Txn(3));
  ASSERT_TRUE(until([&] { return failed_.has_value(); }));
  ASSERT_TRUE(refused_);
  EXPECT_EQ(failed_->kind, ErrorKind::kDisk);
  EXPECT_EQ(refused_->message, "fsync: the disk is on fire");
  failed_.reset();
  env_.broken = false;
  records_.sync(WorkerUid(2), Txn(3));
  EXPECT_EQ(synced_.size(), 2U);
  EXPECT_TRUE(refused_);
  EXPECT_FALSE(records_.finish().ok());
  EXPECT_FALSE(failed_);
}

// The run's directory, moved for the object's life.
class Moved {
 public:
  explicit Moved(std::string path) : path_(std::move(path)) {
    std::filesystem::rename(path_, path_ + "-away");
  }
  ~Moved() { std::filesystem::rename(path_ + "-away", path_); }
  Moved(const Moved&) = delete;
  Moved& operator=(const Moved&) = delete;

 private:
  std::string path_;
};

TEST_F(RecordsTest, ADirectoryThatIsAwayForAMomentIsWaitedFor) {
  commit(3);
  {
    const Moved moved(folder_.path());
    records_.sync(WorkerUid(1), Txn(3));
    for (const Deadline brief = Deadline::in(200ms); !brief.passed();)
      loop_.run_once(Deadline::in(10ms));
  }
  ASSERT_TRUE(until([&] { return !synced_.empty(); }));
  EXPECT_FALSE(refused_) << refused_->message;
  EXPECT_FALSE(failed_) << failed_->message;
}

// What was written is in it, wherever it is: the checkpoint is not saved, and the run goes on.
TEST_F(RecordsTest, ADirectoryThatStaysAwayRefusesTheSyncAndEndsNothing) {
  commit(3);
  {
    const Moved moved(folder_.path());
    records_.sync(WorkerUid(1), Txn(3));
    ASSERT_TRUE(until([&] { return !synced_.empty(); }));
    ASSERT_TRUE(refused_);
    EXPECT_EQ(refused_->kind, ErrorKind::kDisk);
    EXPECT_EQ(refused_->message,
              "'" + folder_.path() +
                  "' is not the directory any more in which this run began: it was moved, removed "
                  "or replaced; put it back");
    commit(5);
    records_.pump();
    EXPECT_EQ(records_.finish().error().message, refused_->message);  // nothing lost goes untold
  }
  EXPECT_FALSE(failed_);
  records_.sync(WorkerUid(1), Txn(5));
  ASSERT_TRUE(until([&] { return synced_.size() == 2; }));
  EXPECT_FALSE(refused_);
  EXPECT_TRUE(records_.finish().ok());
  EXPECT_NE(metrics().find("{\"txn\":4}"), std::string::npos);
}

TEST_F(RecordsTest, AFileThatIsTakenOutOfTheDirectoryEndsTheRecords) {
  commit(3);
  std::filesystem::remove(folder_ / "metrics.jsonl");
  records_.sync(WorkerUid(1), Txn(3));
  ASSERT_TRUE(until([&] { return failed_.has_value(); }));
  EXPECT_EQ(failed_->message,
            "'" + (folder_ / "metrics.jsonl") +
                "' is not the file any more in which this run began: it was moved, removed or "
                "replaced; put it back");
}

TEST(Background, FinishesItsJobsInOrder) {
  Loop loop = Loop::open().value();
  Background background(loop);
  EXPECT_TRUE(background.finish(Deadline::in(0ms)));  // nothing to do
  std::atomic<bool> go = false;
  std::vector<int> jobs, told;
  for (int i = 0; i < 3; ++i)
    background.run(
        [&, i]() -> Status {
          for (const Deadline most = Deadline::in(20s); !go && !most.passed();) pause(1ms);
          jobs.push_back(i);
          return {};
        },
        [&, i](const Status&) { told.push_back(i); });
  EXPECT_FALSE(background.finish(Deadline::in(10ms)));
  EXPECT_TRUE(told.empty());
  go = true;
  EXPECT_TRUE(background.finish(Deadline::in(10s)));
  EXPECT_EQ(jobs, (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(told, jobs);
}

TEST_F(RecordsTest, AGroupThatIsGoneIsNotAnswered) {
  commit(3);
  env_.slow = true;
  records_.sync(WorkerUid(1), Txn(3));
  ASSERT_TRUE(until([&] { return env_.waiting > 0; }));
  records_.close();
  EXPECT_FALSE(records_.is_open());
  env_.slow = false;
  ASSERT_TRUE(until([&] { return env_.waiting == 0; }));
  for (int i = 0; i < 20; ++i) loop_.run_once(Deadline::in(1ms));
  EXPECT_TRUE(synced_.empty());
}

}  // namespace
}  // namespace lockstep::launcher

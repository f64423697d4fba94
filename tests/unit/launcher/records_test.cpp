// Records on a disk that stands still as long as the test says.
#include "launcher/linked/records.h"

#include <gtest/gtest.h>

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
  SlowFile(std::unique_ptr<File> file, std::atomic<bool>& still, std::atomic<bool>& slow,
           std::atomic<int>& waiting, std::atomic<bool>& broken)
      : file_(std::move(file)), still_(still), slow_(slow), waiting_(waiting), broken_(broken) {}
  Status append(std::span<const std::byte> data) override {
    wait(still_);
    return file_->append(data);
  }
  Status sync() override {
    wait(slow_);
    if (broken_) return Error{ErrorKind::kDisk, "fsync: the disk is on fire"};
    return file_->sync();
  }
  Status close() override { return file_->close(); }

 private:
  void wait(const std::atomic<bool>& on) {
    if (!on) return;
    ++waiting_;
    for (const Deadline most = Deadline::in(20s); on && !most.passed();) pause(1ms);
    --waiting_;
  }

  std::unique_ptr<File> file_;
  std::atomic<bool>&still_, &slow_;
  std::atomic<int>& waiting_;
  std::atomic<bool>& broken_;
};

// The file system, but for appends that stand still, and slow and broken syncs.
class SlowEnv final : public Env {
 public:
  std::atomic<bool> still = false, slow = false, broken = false;
  std::atomic<int> waiting = 0;  // calls under way

  std::uint64_t now_ns() override { return posix_env().now_ns(); }
  double wall_time_s() override { return posix_env().wall_time_s(); }
  Result<std::unique_ptr<File>> create(const std::string& path) override {
    return posix_env().create(path);
  }
  Result<std::unique_ptr<File>> open_append(const std::string& path) override {
    LOCKSTEP_ASSIGN(auto file, posix_env().open_append(path));
    return std::unique_ptr<File>(
        std::make_unique<SlowFile>(std::move(file), still, slow, waiting, broken));
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
  RecordsTest() {
    begin(Txn(0));
    EXPECT_TRUE(until([this] { return records_.has_files(); }));
  }
  ~RecordsTest() override {
    env_.still = env_.slow = false;
    EXPECT_TRUE(records_.wait(Deadline::in(20s)));  // both threads use what ends here
    EXPECT_TRUE(background_.finish(Deadline::in(20s)));
  }
  void begin(Txn next) {
    board_ = std::make_shared<SharedBoard>(SharedBoard::make().value());
    board_->set_plan(kPlan);
    records_.open(folder_.path(), board_, next);
  }
  coord::Board board() const { return board_->view(); }

  // A worker has committed the transactions below this one.
  void commit(std::uint64_t end) {
    coord::WorkerSlot& slot = board().slot(Slot(0));
    for (std::uint64_t txn = slot.applied; txn < end; ++txn) {
      coord::CommitLines& lines = board().lines(Slot(0), Txn(txn));
      const std::string console = std::to_string(txn) + "\n";
      const std::string text = console + "{\"txn\":" + std::to_string(txn) + ",\"x\":1}\n";
      std::memcpy(lines.text, text.data(), text.size());
      lines.console_bytes = static_cast<std::uint32_t>(console.size());
      lines.metrics_bytes = static_cast<std::uint32_t>(text.size() - console.size());
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
  // Until all below it are in the files.
  bool recorded(Txn txn) {
    return until([&] { return records_.pump(), records_.next() == txn; });
  }
  Status finish() {
    std::optional<Status> status;
    records_.finish({}, [&](const Status& done) { status = done; });
    EXPECT_TRUE(until([&] { return status.has_value(); }));
    return status.value_or(Status());
  }
  std::string metrics() const { return test::read_text(folder_ / "metrics.jsonl"); }

  static constexpr coord::BoardPlan kPlan{1, 1, 64};
  test::TempFolder folder_;
  std::shared_ptr<SharedBoard> board_;
  // Jobs that nobody waits for may outlive the test.
  static SlowEnv& lasting_env() {
    static SlowEnv& env = *new SlowEnv;
    env.broken = false;
    return env;
  }
  SlowEnv& env_ = lasting_env();
  Loop loop_ = Loop::open().value();
  std::vector<std::uint64_t> synced_;  // transactions, as they are answered
  std::optional<Error> failed_, refused_;
  std::string lines_;
  Background background_{loop_};
  Records records_{env_,
                   loop_,
                   background_,
                   {[this](std::string_view lines) { lines_ += lines; },
                    [this](const Error& error) { failed_ = error; },
                    [this](WorkerUid, Txn txn, const std::optional<Error>& error) {
                      synced_.push_back(txn.value());
                      refused_ = error;
                    }}};
};

TEST_F(RecordsTest, TheLoopGoesRoundWhileTheDiskSyncs) {
  commit(3);
  env_.slow = true;
  const auto begin = std::chrono::steady_clock::now();
  records_.sync(WorkerUid(1), Txn(3));
  ASSERT_TRUE(until([&] { return env_.waiting > 0; }));
  commit(5);
  EXPECT_TRUE(recorded(Txn(5)));
  EXPECT_NE(metrics().find("{\"txn\":4,"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 15s);
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
  EXPECT_TRUE(until([&] { return records_.pump(), synced_.size() == 3; }));
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
  EXPECT_FALSE(finish().ok());
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
    EXPECT_EQ(finish().error().message, refused_->message);  // nothing lost goes untold
  }
  EXPECT_FALSE(failed_);
  records_.sync(WorkerUid(1), Txn(5));
  ASSERT_TRUE(until([&] { return synced_.size() == 2; }));
  EXPECT_FALSE(refused_);
  EXPECT_TRUE(finish().ok());
  EXPECT_NE(metrics().find("{\"txn\":4,"), std::string::npos);
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

// Neither as the group begins, nor in its midst, nor at its end.
TEST_F(RecordsTest, ADiskThatStandsStillHoldsUpNoCaller) {
  env_.still = env_.slow = true;
  const auto begin_at = std::chrono::steady_clock::now();
  commit(3);
  records_.sync(WorkerUid(1), Txn(3));
  ASSERT_TRUE(until([&] { return env_.waiting > 0; }));
  std::optional<Status> finished;
  bool last = false;
  records_.finish([&] { return last = true, Status(); },
                  [&](const Status& end) { finished = end; });
  records_.close();
  begin(Txn(3));
  EXPECT_FALSE(board().has_room(Txn(3 + kPlan.ring))) << "nobody is to write over its lines";
  for (int i = 0; i < 20; ++i) loop_.run_once(Deadline::in(1ms)), records_.pump();
  EXPECT_FALSE(records_.wait(Deadline::in(1ms)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin_at, 15s);
  EXPECT_FALSE(records_.has_files());
  EXPECT_FALSE(finished || last);
  env_.still = env_.slow = false;
  ASSERT_TRUE(until([&] { return records_.has_files(); }));
  EXPECT_TRUE(last && finished && finished->ok());
  EXPECT_TRUE(synced_.empty()) << "it was of a group that is gone";
  EXPECT_NE(metrics().find("{\"txn\":2,"), std::string::npos);
  EXPECT_FALSE(failed_);
}

// Of a board that another one has replaced meanwhile, too; each once.
TEST_F(RecordsTest, WhatAGroupHasCommittedIsWrittenAndToldAfterItsEnd) {
  commit(3);
  records_.close();
  begin(Txn(1));
  EXPECT_EQ(records_.next(), Txn(1));
  ASSERT_TRUE(until([&] { return records_.has_files(); }));
  EXPECT_EQ(lines_, "0\n1\n2\n");
  board().slot(Slot(0)).applied = 1;
  commit(4);
  EXPECT_TRUE(recorded(Txn(4)));
  EXPECT_EQ(lines_, "0\n1\n2\n3\n");
}

TEST_F(RecordsTest, FilesThatCannotBeOpenedAreTold) {
  records_.close();
  std::filesystem::remove(folder_ / "ledger.jsonl");
  std::filesystem::create_directory(folder_ / "ledger.jsonl");
  begin(Txn(0));
  ASSERT_TRUE(until([&] { return failed_.has_value(); }));
  EXPECT_EQ(failed_->kind, ErrorKind::kDisk);
  EXPECT_FALSE(records_.has_files());
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

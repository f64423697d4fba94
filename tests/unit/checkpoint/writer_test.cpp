#include "checkpoint/writer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <future>
#include <optional>

#include "rundir/lock.h"
#include "rundir/names.h"
#include "support/checkpoint_fault_env.h"
#include "unit/checkpoint/samples.h"

namespace lockstep::checkpoint {
namespace {

using testing::MemoryEnv;
using namespace std::chrono_literals;

class WriterTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(env_.make_dirs("run").ok()); }

  WriterOptions options() {
    WriterOptions options;
    options.run_dir = "run";
    options.run_identity = "run-a";
    options.virtual_workers = 3;
    return options;
  }

  Result<bool> take(Writer& writer, std::uint64_t txn, WhenBusy busy = WhenBusy::kWait,
                    std::chrono::milliseconds patience = 20s) {
    const Sample sample(txn);  // gone when this returns: the snapshot has its own copy
    return writer.snapshot(sample.parts(), sample.state(), {txn, 0, txn}, 5, busy,
                           Deadline::in(patience));
  }

  bool published(std::uint64_t txn) {
    return env_.exists("run/checkpoints/" + rundir::step_name(txn));
  }

  MemoryEnv env_;
};

bool takes(int signal) {  // this thread
  sigset_t blocked;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
  return sigismember(&blocked, signal) == 0;
}

TEST_F(WriterTest, SignalsAreTheProgramsOwn) {
  auto o = options();
  std::optional<bool> writers;
  o.done = [&](const RunCursor&, const Result<Published>&) { writers = takes(SIGTERM); };
  Writer writer(env_, o);
  EXPECT_TRUE(*take(writer, 10));
  EXPECT_TRUE(writer.wait(Deadline::in(20s)).ok());
  EXPECT_EQ(writers, false);
  EXPECT_TRUE(takes(SIGTERM)) << "those of the thread that asked are as they were";
}

TEST_F(WriterTest, PublishesWhatTheTensorsHeldAtTheSnapshot) {
  auto o = options();
  std::vector<std::string> outcomes;
  o.done = [&](const RunCursor& cursor, const Result<Published>& result) {
    ASSERT_TRUE(result.ok()) << result.error().message;
    EXPECT_EQ(result->cursor, cursor);
    EXPECT_TRUE(result->warning.empty()) << result->warning;
    EXPECT_GT(result->bytes, 0U);
    outcomes.push_back(result->path + " " + result->weights_sha256);
  };
  Writer writer(env_, o);
  for (const std::uint64_t txn : {10U, 20U, 30U}) EXPECT_TRUE(*take(writer, txn));
  EXPECT_TRUE(writer.wait(Deadline::in(20s)).ok());
  ASSERT_EQ(outcomes.size(), 3U);
  EXPECT_EQ(outcomes[2],
            "run/checkpoints/step-00000030 " + weights_sha256(Sample(30).parts()[0].tensors));
  EXPECT_EQ(*env_.list("run/checkpoints"),
            (std::vector<std::string>{"last", "step-00000020", "step-00000030"}));
  EXPECT_EQ(*env_.read("run/checkpoints/last", 99), "step-00000030\n");
  Sample loaded(0);
  const auto targets = loaded.targets();
  const auto search = load_newest(env_, "run", {"run-a", 3}, targets);
  ASSERT_TRUE(search.ok() && search->newest);
  EXPECT_EQ(search->newest->manifest.generation, 5U);
  EXPECT_EQ(loaded, Sample(30));
}

TEST_F(WriterTest, TheGateComesBeforePublicationAndItsErrorCancels) {
  auto o = options();
  bool refuse = false;
  o.gate = [&](const RunCursor& cursor) -> Status {
    EXPECT_FALSE(published(cursor.txn));
    EXPECT_TRUE(env_.exists("run/checkpoints/.tmp-lockstep-" + rundir::step_name(cursor.txn) +
                            "/manifest.json"));
    if (refuse) return Error{ErrorKind::kTimedOut, "records are late"};
    return {};
  };
  Writer writer(env_, o);
  EXPECT_TRUE(*take(writer, 10));
  EXPECT_TRUE(writer.wait(Deadline::in(20s)).ok());
  refuse = true;
  EXPECT_TRUE(*take(writer, 20));
  const Status status = writer.wait(Deadline::in(20s));
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().message, "records are late");
  EXPECT_FALSE(published(20));
  EXPECT_EQ(*env_.list("run/checkpoints"), (std::vector<std::string>{"last", "step-00000010"}));
}

TEST_F(WriterTest, NothingIsMadeWhereThePlaceIsGone) {
  auto o = options();
  bool gone = true;
  o.place = [&]() -> Status {
    if (gone) return Error{ErrorKind::kDisk, "moved away"};
    return {};
  };
  o.gate = [&](const RunCursor&) -> Status {
    EXPECT_FALSE(gone);
    return {};
  };
  Writer writer(env_, o);
  EXPECT_TRUE(*take(writer, 10));
  EXPECT_EQ(writer.wait(Deadline::in(20s)).error().message, "moved away");
  EXPECT_TRUE(env_.list("run")->empty());
  gone = false;
  EXPECT_TRUE(*take(writer, 20));
  EXPECT_TRUE(writer.wait(Deadline::in(20s)).ok());
  EXPECT_TRUE(published(20));
}

TEST_F(WriterTest, OneInFlightTheSecondWaitsOrIsSkipped) {
  std::promise<void> open;
  auto opened = open.get_future().share();
  auto o = options();
  o.gate = [&](const RunCursor&) -> Status {
    opened.wait_for(20s);
    return {};
  };
  Writer writer(env_, o);
  EXPECT_TRUE(*take(writer, 10));
  EXPECT_TRUE(writer.busy());
  EXPECT_FALSE(*take(writer, 20, WhenBusy::kSkip));
  const auto late = take(writer, 20, WhenBusy::kWait, 20ms);
  ASSERT_FALSE(late.ok());
  EXPECT_EQ(late.error().kind, ErrorKind::kTimedOut);
  EXPECT_EQ(writer.wait(Deadline::in(1ms)).error().kind, ErrorKind::kTimedOut);
  open.set_value();
  EXPECT_TRUE(*take(writer, 30));
  EXPECT_TRUE(writer.wait(Deadline::in(20s)).ok());
  EXPECT_TRUE(published(10) && published(30));
  EXPECT_FALSE(published(20));
}

TEST_F(WriterTest, ACopyIsWrittenOnceItIsSaidAndNotBefore) {
  const auto copied = [&](Writer& writer, std::uint64_t txn) {
    const Sample sample(txn);
    return *writer.copy(sample.parts(), WhenBusy::kSkip, Deadline::in(20s));
  };
  {
    Writer writer(env_, options());
    EXPECT_TRUE(copied(writer, 10));
    EXPECT_FALSE(writer.busy());
    EXPECT_TRUE(copied(writer, 20));
    EXPECT_TRUE(writer.write(Sample(20).state(), {20, 0, 20}, 5).ok());
    EXPECT_TRUE(writer.wait(Deadline::in(20s)).ok());
    EXPECT_TRUE(copied(writer, 30));
  }
  EXPECT_EQ(*env_.list("run/checkpoints"), (std::vector<std::string>{"last", "step-00000020"}));
  Sample loaded(0);
  const auto targets = loaded.targets();
  const auto search = load_newest(env_, "run", {"run-a", 3}, targets);
  ASSERT_TRUE(search.ok() && search->newest);
  EXPECT_EQ(search->newest->state, Sample(20).state());
  EXPECT_EQ(loaded, Sample(20));
}

TEST_F(WriterTest, TheDestructorFinishesWhatWasTaken) {
  {
    Writer writer(env_, options());
    EXPECT_TRUE(*take(writer, 10));
  }
  EXPECT_TRUE(published(10));
}

TEST_F(WriterTest, BadNamesAndSizesAreUsageErrors) {
  Writer writer(env_, options());
  const std::vector<std::byte> bytes(3);
  const auto refused = [&](const std::string& part, std::vector<NamedBytes> tensors) {
    const std::vector<Part> parts = {{part, std::move(tensors)}};
    const auto taken = writer.snapshot(parts, "{}", {}, 0, WhenBusy::kWait, Deadline::in(1s));
    return !taken.ok() && taken.error().kind == ErrorKind::kUsage;
  };
  EXPECT_TRUE(refused("../model", {}));
  EXPECT_TRUE(refused("", {}));
  EXPECT_TRUE(refused("model", {{{"a", DType::kF32, {1}}, bytes}}));
  EXPECT_FALSE(writer.busy());
}

// A real disk that is full: the process may not write files above a size.
TEST_F(WriterTest, AFullDiskLeavesTheOldCheckpointAndNothingElse) {
  const test::TempFolder folder;
  WriterOptions o = options();
  o.run_dir = folder.path();
  Writer writer(posix_env(), o);
  ASSERT_TRUE(*take(writer, 10));
  ASSERT_TRUE(writer.wait(Deadline::in(20s)).ok());
  const Sample large(20, 20000);  // 2.4 MB
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit{1 << 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const auto taken =
      writer.snapshot(large.parts(), "{}", {20, 0, 20}, 1, WhenBusy::kWait, Deadline::in(20s));
  const Status status = writer.wait(Deadline::in(20s));
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old_handler);
  ASSERT_TRUE(taken.ok());
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kDisk);
  EXPECT_NE(status.error().message.find("File too large"), std::string::npos);
  EXPECT_EQ(*posix_env().list(folder.path() + "/checkpoints"),
            (std::vector<std::string>{"last", "step-00000010"}));
  Sample loaded(0);
  const auto targets = loaded.targets();
  const auto search = load_newest(posix_env(), folder.path(), {"run-a", 3}, targets);
  ASSERT_TRUE(search.ok() && search->newest);
  EXPECT_EQ(loaded, Sample(10));
}

// Nothing is made in its place, and errors call it as it was called.
TEST_F(WriterTest, ARunDirectoryThatIsMovedMeanwhileIsFollowed) {
  const test::TempFolder folder;
  const std::string path = folder / "run", moved = folder / "moved";
  WriterOptions o = options();
  ASSERT_TRUE(posix_env().make_dirs(path).ok());
  const UniqueFd held(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ASSERT_TRUE(held);
  o.run_dir = path;
  o.through = rundir::path_through(held.get());
  o.place = [&] { return posix_env().rename(path, moved); };
  std::vector<std::string> outcomes;
  o.done = [&](const RunCursor&, const Result<Published>& result) {
    outcomes.push_back(result.ok() ? result->path : result.error().message);
  };
  Writer writer(posix_env(), o);
  ASSERT_TRUE(*take(writer, 10));
  EXPECT_TRUE(writer.wait(Deadline::in(20s)).ok());
  EXPECT_FALSE(posix_env().exists(path));
  EXPECT_TRUE(posix_env().exists(moved + "/checkpoints/step-00000010"));
  ASSERT_TRUE(posix_env().remove_all(moved + "/checkpoints").ok());
  ASSERT_TRUE(posix_env().rename(moved, path).ok());
  std::ofstream(path + "/checkpoints") << "in the way";
  ASSERT_TRUE(*take(writer, 20));
  EXPECT_FALSE(writer.wait(Deadline::in(20s)).ok());
  ASSERT_EQ(outcomes.size(), 2U);
  EXPECT_EQ(outcomes[0], path + "/checkpoints/step-00000010");
  EXPECT_NE(outcomes[1].find("'" + path + "/checkpoints"), std::string::npos) << outcomes[1];
}

}  // namespace
}  // namespace lockstep::checkpoint

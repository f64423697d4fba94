// `lockstep copy`: whole files or none, twice is once, errors that name the place.
#include "data/copy.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "base/processes.h"
#include "support/temp_folder.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

class CopyAll : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"a", "deep/b", "deep/er/c", "empty"}) write(from_ + "/" + name);
    fs::create_directories(from_ + "/nothing");
    fs::create_symlink("../deep/b", from_ + "/nothing/link");
    fs::permissions(from_ + "/a", fs::perms::owner_all);
    fs::resize_file(from_ + "/empty", 0);
  }
  static void write(const std::string& path) {
    fs::create_directories(fs::path(path).parent_path());
    std::ofstream(path) << "this is " << fs::path(path).filename().string();
  }
  static std::string read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void expect_equal() const {
    for (const char* name : {"a", "deep/b", "deep/er/c", "empty", "nothing/link"})
      EXPECT_EQ(read(to_ + "/" + name), read(from_ + "/" + name)) << name;
    EXPECT_TRUE(fs::is_regular_file(fs::symlink_status(to_ + "/nothing/link")));
    EXPECT_EQ(fs::status(to_ + "/a").permissions(), fs::perms::owner_all);
    for (const auto& entry : fs::recursive_directory_iterator(to_))
      EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp")) << entry.path();
  }
  ErrorKind kind_of(const std::string& from, const std::string& to, const std::string& says) {
    const auto copied = copy_all(from, to);
    if (copied.ok()) return ErrorKind::kInternal;
    EXPECT_NE(copied.error().message.find(says), std::string::npos) << copied.error().message;
    return copied.error().kind;
  }
  test::TempFolder folder_;
  const std::string from_ = folder_ / "from", to_ = folder_ / "new/to";
};

TEST_F(CopyAll, AFolderAndThenWhatIsNotThereYet) {
  const auto first = copy_all(from_, to_);
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(first->files, 5U);
  EXPECT_EQ(first->kept, 0U);
  EXPECT_EQ(first->bytes, 3U * 9 + 9);
  expect_equal();
  write(from_ + "/deep/b");  // another time of change, seen through the link too
  fs::last_write_time(from_ + "/deep/b", fs::last_write_time(from_ + "/a") + std::chrono::hours(1));
  fs::remove(to_ + "/deep/er/c");
  write(to_ + "/deep/er/.tmp-lockstep-copy-999999999-1-7");  // of one that was killed
  const auto second = copy_all(from_, to_, 1);
  ASSERT_TRUE(second.ok()) << second.error().message;
  EXPECT_EQ(second->files, 3U);
  EXPECT_EQ(second->kept, 2U);
  expect_equal();
}

TEST_F(CopyAll, AFile) {
  fs::create_directory(folder_ / "elsewhere");
  const auto left_by = [this](pid_t pid, std::uint64_t start) {
    return folder_ / ("elsewhere/.tmp-lockstep-copy-" + std::to_string(pid) + "-" +
                      std::to_string(start) + "-0");
  };
  const pid_t zombie = ::fork();
  if (zombie == 0) ::_exit(0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(zombie), &info, WEXITED | WNOWAIT), 0);
  const std::uint64_t start = stat_of(::getppid())->start;
  const std::string killed = left_by(999999999, 1), alive = left_by(::getppid(), start);
  const std::string later = left_by(::getppid(), start + 1);  // has a dead one's number
  const std::string unasked = left_by(zombie, stat_of(zombie)->start);
  for (const std::string& left : {killed, alive, later, unasked}) write(left);
  ASSERT_TRUE(copy_all(from_ + "/a", folder_ / "elsewhere/b").ok());
  EXPECT_EQ(read(folder_ / "elsewhere/b"), "this is a");
  ::waitpid(zombie, nullptr, 0);
  for (const std::string& left : {killed, later, unasked}) EXPECT_FALSE(fs::exists(left)) << left;
  EXPECT_TRUE(fs::exists(alive)) << "another copy's, into a folder above or below";
  EXPECT_EQ(kind_of(from_ + "/a", from_ + "/deep", "is a folder"), ErrorKind::kUsage);
}

TEST_F(CopyAll, WhatCannotBeIsTold) {
  EXPECT_EQ(kind_of("s3://bucket/x", to_, "'s3://bucket/x'"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of(from_, "obs://bucket/x", "obs://"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of(from_, from_ + "/deep/new", "would never end"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of(from_, from_, "would never end"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of(folder_ / "none", to_, "none"), ErrorKind::kBadData);
  EXPECT_EQ(kind_of("", to_, "an empty name"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of(from_, "", "an empty name"), ErrorKind::kUsage);
  EXPECT_EQ(kind_of(from_ + "/a", folder_ / "new/", "is a folder"), ErrorKind::kUsage);
  const std::string loop = folder_ / "loop";
  fs::create_symlink(loop, loop);
  EXPECT_EQ(kind_of(loop, to_, "cannot read '" + loop), ErrorKind::kBadData);
  EXPECT_EQ(kind_of(from_, loop, loop), ErrorKind::kDisk);
  ASSERT_EQ(::mkfifo((from_ + "/pipe").c_str(), 0600), 0);
  EXPECT_EQ(kind_of(from_, to_, "pipe' is no file"), ErrorKind::kBadData);
}

TEST_F(CopyAll, ALinkThatLeadsUpwardsEnds) {
  fs::create_directory_symlink("..", from_ + "/deep/up");
  EXPECT_EQ(kind_of(from_, to_, "lead upwards"), ErrorKind::kBadData);
  EXPECT_FALSE(fs::exists(to_));
}

TEST_F(CopyAll, OneAtATime) {
  fs::create_directories(to_);
  const int other = ::open(to_.c_str(), O_RDONLY | O_DIRECTORY);
  ASSERT_EQ(::flock(other, LOCK_EX), 0);
  EXPECT_EQ(kind_of(from_, to_, "under way"), ErrorKind::kUnavailable);
  ::close(other);
  EXPECT_TRUE(copy_all(from_, to_).ok());
}

TEST_F(CopyAll, AFolderInAFilesPlaceIsADiskError) {
  write(to_ + "/a/in the way");
  EXPECT_EQ(kind_of(from_, to_, "/a'"), ErrorKind::kDisk);
}

// As what is written elsewhere (write_atomically).
TEST_F(CopyAll, ALinkAtTheGoalStaysAndWhatItLeadsToIsReplaced) {
  write(folder_ / "elsewhere/old");
  fs::create_directories(to_);
  fs::create_symlink("../../elsewhere/old", to_ + "/a");
  fs::create_symlink("../../elsewhere/new", to_ + "/empty");
  ASSERT_TRUE(copy_all(from_, to_).ok());
  expect_equal();
  for (const char* name : {"/a", "/empty"}) EXPECT_TRUE(fs::is_symlink(to_ + name)) << name;
  EXPECT_EQ(read(folder_ / "elsewhere/old"), "this is a");
  EXPECT_TRUE(fs::exists(folder_ / "elsewhere/new"));
  const auto again = copy_all(from_, to_);
  EXPECT_TRUE(again.ok() && again->files == 0);
}

TEST_F(CopyAll, NeitherPipesNorLinksInACircleAreReplaced) {
  fs::create_directories(to_);
  ASSERT_EQ(::mkfifo((to_ + "/a").c_str(), 0600), 0);
  EXPECT_EQ(kind_of(from_, to_, "is no regular file"), ErrorKind::kUsage);
  EXPECT_TRUE(fs::is_fifo(to_ + "/a"));
  fs::remove(to_ + "/a");
  fs::create_symlink("a", to_ + "/a");
  EXPECT_EQ(kind_of(from_, to_, "leads in a circle"), ErrorKind::kUsage);
  EXPECT_TRUE(fs::is_symlink(to_ + "/a"));
}

TEST_F(CopyAll, StoppedAnywhereItLeavesWholeFilesAlone) {
  bool done = false;
  for (int questions = 0; !done; ++questions) {
    std::atomic<int> asked{0};
    const auto copied = copy_all(from_, to_, 1, [&] { return asked++ >= questions; });
    done = copied.ok();
    EXPECT_TRUE(done || copied.error().kind == ErrorKind::kUnavailable);
    if (!fs::exists(to_)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(to_))
      EXPECT_FALSE(entry.path().filename().string().starts_with(".tmp")) << entry.path();
  }
  expect_equal();
  std::atomic<int> asked{0};  // for each of 9 places, and again for each of 5 files that are there
  EXPECT_TRUE(copy_all(from_, to_, 1, [&] { return ++asked < 0; }).ok());
  EXPECT_GE(asked, 9 + 5 + 1);
}

}  // namespace
}  // namespace lockstep::data

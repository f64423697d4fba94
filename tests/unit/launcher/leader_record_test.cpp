// What a killed leader leaves for the next one, and who takes it away.
#include "launcher/nodes/leader_record.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "support/temp_folder.h"

namespace lockstep::launcher {
namespace {

namespace fs = std::filesystem;

constexpr int kMost = 5;

class LeaderRecords : public ::testing::Test {
 protected:
  LeaderRecord of(const std::string& leader,
                  const std::vector<std::string>& command = kCommand) const {
    return LeaderRecord(leader, command, folder_.path());
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(folder_.path())) found.push_back(entry.path());
    return found;
  }
  static void expect_taken(LeaderRecord& record, std::uint64_t run, nodes::Attempt attempt) {
    const nodes::Leader::Record found = record.take(kMost);
    EXPECT_EQ(found.run, run);
    EXPECT_EQ(found.attempt, attempt);
    EXPECT_FALSE(found.begins_anew);
  }
  static void expect_unknown(LeaderRecord& record) {
    const nodes::Leader::Record found = record.take(kMost);
    EXPECT_TRUE(found.begins_anew);
    EXPECT_EQ(found.attempt, 0u);
  }
  // Of a leader that was killed so long ago.
  fs::path left(const std::string& node, std::chrono::hours ago) const {
    const std::vector<fs::path> before = files();
    of(node).keep({1, 1});
    for (const fs::path& path : files()) {
      if (std::ranges::find(before, path) != before.end()) continue;
      fs::last_write_time(path, fs::file_time_type::clock::now() - ago);
      return path;
    }
    ADD_FAILURE() << "no record was written";
    return {};
  }

  static inline const std::vector<std::string> kCommand{"train.py", "--lr", "0.1"};
  const test::TempFolder folder_;
};

TEST_F(LeaderRecords, WhatIsLeftIsRemovedByThatCommandAlone) {
  {
    LeaderRecord killed = of("node");
    killed.keep({1, 3});
  }
  EXPECT_TRUE(of("node", {"other.py"}).is_there());
  EXPECT_FALSE(of("elsewhere").is_there());
  of("node", {"other.py"}).remove_what_is_left();
  EXPECT_EQ(files().size(), 1u) << "another run's, which may go on from it";
  of("node").remove_what_is_left();
  EXPECT_TRUE(files().empty());
}

TEST_F(LeaderRecords, GoFromAKilledLeaderToTheNext) {
  constexpr std::uint64_t kRun = 0xfedcba9876543210;
  std::optional<LeaderRecord> first(of("node"));
  expect_taken(*first, 0, 0);
  EXPECT_TRUE(files().empty()) << "nothing is kept yet";
  first->keep({kRun, 1});
  first->keep({kRun, 2});
  LeaderRecord next = of("node"), other = of("other");
  expect_unknown(next);  // the first one lives
  first.reset();
  expect_taken(next, kRun, 2);
  expect_taken(other, 0, 0);
  next.keep({kRun, 3});
  EXPECT_EQ(files().size(), 1u);
  next.remove();
  EXPECT_TRUE(files().empty());
}

// It ends before it has begun an attempt of its own.
TEST_F(LeaderRecords, WhoHasTakenOneRemovesIt) {
  of("node").keep({7, 2});
  LeaderRecord next = of("node");
  of("node").remove();  // who has not leaves it
  expect_taken(next, 7, 2);
  next.remove();
  EXPECT_TRUE(files().empty());
}

TEST_F(LeaderRecords, WhatIsNoRecordIsLeftAlone) {
  of("node").keep({7, 2});
  const fs::path path = files().at(0);
  const std::string whole = test::read_text(path.string()), other_version = "lockstep leader 1";
  std::vector<std::string> bad{
      "\xff\xfe",
      "lockstep leader 2 x",
      "lockstep leader 2 7 2 " + std::string(32, 'a') + "\n",
      other_version + whole.substr(other_version.size()),
      "lockstep leader 2 00000000000000000007 -0000000000000000002 " + std::string(32, 'a') + "\n",
      whole + "more",
      std::string(4096, '9')};
  for (std::size_t size = 0; size < whole.size(); ++size) bad.push_back(whole.substr(0, size));
  for (const std::string& text : bad) {
    folder_.write(path.filename(), text);
    LeaderRecord record = of("node");
    expect_unknown(record);
  }
  of("node").keep({7, 3});  // whatever was there
  LeaderRecord again = of("node");
  expect_taken(again, 7, 3);
  fs::remove(path);
  const std::string other = folder_.write("other", "as it was");
  fs::create_symlink(other, path);
  LeaderRecord by_link = of("node");
  expect_unknown(by_link);
  by_link.keep({9, 9});
  by_link.remove();
  EXPECT_EQ(test::read_text(other), "as it was");
  EXPECT_TRUE(fs::is_symlink(path));
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  LeaderRecord by_pipe = of("node");
  expect_unknown(by_pipe);
  by_pipe.keep({9, 9});
  fs::remove(path);
  fs::create_directory(path);
  LeaderRecord by_folder = of("node");
  expect_unknown(by_folder);
  LeaderRecord::remove_left(folder_.path());
  EXPECT_TRUE(fs::exists(path));
}

TEST_F(LeaderRecords, OldOnesThatNobodyHoldsAreRemoved) {
  const fs::path recent = left("recent", std::chrono::hours(0));
  const fs::path old = left("old", std::chrono::hours(2));
  const fs::path held = left("held", std::chrono::hours(2));
  LeaderRecord holder = of("held");
  holder.take(kMost);
  const fs::path other = folder_.write("lockstep-other.leader", "");
  fs::last_write_time(other, fs::file_time_type::clock::now() - std::chrono::hours(2));
  // Of a leader that has lived until now, whenever its attempt began.
  const fs::path touched = left("touched", std::chrono::hours(2));
  {
    LeaderRecord leader = of("touched");
    leader.take(kMost);
    leader.touch();
  }
  LeaderRecord::remove_left(folder_.path());
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(touched));
  for (const fs::path& path : {recent, held, other}) EXPECT_TRUE(fs::exists(path)) << path;
}

// A login has its own $XDG_RUNTIME_DIR and TMPDIR; cron, systemd and a later login do not.
TEST_F(LeaderRecords, AreFoundWhereverTheNextLeaderIsStartedFrom) {
  const std::string leader = "test " + std::to_string(::getpid());
  for (const char* variable : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
    const char* const value = std::getenv(variable);
    const std::optional<std::string> before =
        value ? std::optional<std::string>(value) : std::nullopt;
    ::setenv(variable, folder_.path().c_str(), 1);
    LeaderRecord(leader, kCommand).keep({7, 2});
    ::unsetenv(variable);
    LeaderRecord next(leader, kCommand);
    expect_taken(next, 7, 2);
    next.remove();
    if (before) ::setenv(variable, before->c_str(), 1);
  }
  EXPECT_TRUE(files().empty());
}

TEST_F(LeaderRecords, WhatCannotBeLeftIsToldOnce) {
  LeaderRecord record("node", kCommand, folder_.path() + "/none");
  ::testing::internal::CaptureStderr();
  record.keep({7, 1});
  const std::string told = ::testing::internal::GetCapturedStderr();
  for (const std::string& part : {folder_.path() + "/none", std::string("No such file"),
                                  std::string("counts restarts from 0")})
    EXPECT_NE(told.find(part), std::string::npos) << told;
  ::testing::internal::CaptureStderr();
  record.keep({7, 2});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

// What it has begun is waited for; its count is not gone on from.
TEST_F(LeaderRecords, OfAnotherCommandBeginAnew) {
  of("node").keep({7, 2});
  const auto taken = [&](const std::vector<std::string>& command, int max_restarts,
                         const std::string& says) {
    LeaderRecord record = of("node", command);
    ::testing::internal::CaptureStderr();
    const nodes::Leader::Record found = record.take(max_restarts);
    const std::string told = ::testing::internal::GetCapturedStderr();
    EXPECT_NE(told.find(says), std::string::npos) << told;
    EXPECT_NE(told.find(" s ago)"), std::string::npos) << told;
    EXPECT_EQ(found.run, 7u);  // of which no number may be used twice
    EXPECT_EQ(found.attempt, 2u);
    return !found.begins_anew;
  };
  EXPECT_TRUE(taken(kCommand, 2, "restart count 2 of 2"));
  EXPECT_FALSE(taken(kCommand, 1, "no restart left (--max-restarts 1)"));
  for (const std::vector<std::string>& other : std::vector<std::vector<std::string>>{
           {"train.py", "--lr", "0.2"}, {"train.py", "--lr"}, {"train.py", "--lr0.1"}, {"eval.py"}})
    EXPECT_FALSE(taken(other, kMost, "restart count 0"));
  LeaderRecord next = of("node", {"eval.py"});
  next.take(kMost);
  next.keep({7, 2});  // from now on it is that one's
  next = of("other");
  EXPECT_FALSE(taken(kCommand, kMost, "another program or other arguments"));
}

}  // namespace
}  // namespace lockstep::launcher

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <future>

#include "lockstep/data.h"
#include "support/temp_folder.h"
#include "unit/data/archive/tars.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using test::read_text;
using testing::HasSubstr;

class Unpack : public testing::Test {
 protected:
  std::string archive(const std::string& content = "one") const {
    return folder_.write("data.tar.gz", gzip(Tar().add("Train/a/1.jpg", content).end()));
  }
  std::string error(const std::string& path, ErrorKind kind = ErrorKind::kBadData) const {
    const auto result = unpack_once(path, stage());
    if (result.ok()) return "none";
    EXPECT_EQ(result.error().kind, kind) << result.error().message;
    return result.error().message;
  }
  std::string stage() const { return folder_ / "stage"; }
  std::size_t staged() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(stage()), fs::directory_iterator()));
  }
  const test::TempFolder folder_;
};

TEST_F(Unpack, OnceAndThenItIsThere) {
  const std::string path = archive();
  for (int i = 0; i < 2; ++i) {
    const auto target = unpack_once(path, stage());
    ASSERT_TRUE(target.ok()) << target.error().message;
    EXPECT_EQ(*target, stage() + "/data");
    EXPECT_EQ(read_text(*target + "/Train/a/1.jpg"), "one");
    folder_.write("stage/data/seen", "");
  }
  EXPECT_TRUE(fs::exists(stage() + "/data/seen")) << "unpacked twice";
  EXPECT_EQ(staged(), 1U);
}

// A link has its file's content, also when another entry takes that one's name later.
TEST_F(Unpack, HardLinksAndLaterEntriesOfTheSameName) {
  const std::string path = folder_.write("data.tar", Tar()
                                                         .add("a/1", "one")
                                                         .link("b/2", "a/1")
                                                         .link("b/3", "b/2")
                                                         .add("a/1", "other")
                                                         .link("b/2", "a/1")
                                                         .end());
  const auto target = unpack_once(path, stage());
  ASSERT_TRUE(target.ok()) << target.error().message;
  EXPECT_EQ(read_text(*target + "/a/1"), "other");
  EXPECT_EQ(read_text(*target + "/b/2"), "other");
  EXPECT_EQ(read_text(*target + "/b/3"), "one");
  EXPECT_THAT(error(folder_.write("early.tar", Tar().link("b", "a").add("a", "x").end())),
              HasSubstr("'b' is a link to 'a', which is no file before it"));
  EXPECT_THAT(error(folder_.write("dir.tar", Tar().add("a/", "", '5').link("b", "a").end())),
              HasSubstr("no file before it"));
  EXPECT_THAT(error(folder_.write("out.tar", Tar().link("b", "../data.tar").end())),
              HasSubstr("climbs out"));
}

TEST_F(Unpack, SeveralAtOnceAndAfterOneThatWasKilled) {
  const std::string path = archive();
  folder_.write("stage/.tmp-lockstep-data/left", "half");
  std::vector<std::future<Result<std::string>>> all;
  for (int i = 0; i < 4; ++i)
    all.push_back(std::async(std::launch::async, [&] { return unpack_once(path, stage()); }));
  for (auto& one : all) {
    const auto target = one.get();
    ASSERT_TRUE(target.ok()) << target.error().message;
    EXPECT_EQ(read_text(*target + "/Train/a/1.jpg"), "one");
    EXPECT_FALSE(fs::exists(*target + "/left"));
  }
  EXPECT_EQ(staged(), 1U);
}

TEST_F(Unpack, WhatIsThereAlreadyStays) {
  ASSERT_EQ(error(archive()), "none");
  EXPECT_THAT(error(archive("another"), ErrorKind::kUsage), HasSubstr("another archive"));
  EXPECT_EQ(read_text(stage() + "/data/Train/a/1.jpg"), "one");
  fs::remove_all(stage());
  folder_.write("stage/data/mine", "mine");
  EXPECT_THAT(error(archive(), ErrorKind::kUsage), HasSubstr("not unpacked by this program"));
  EXPECT_EQ(read_text(stage() + "/data/mine"), "mine");
}

TEST_F(Unpack, ABadArchiveLeavesNothing) {
  const std::string path =
      folder_.write("bad.tar", Tar().add("a", "x").add("../../climbed", "x").end());
  EXPECT_THAT(error(path), HasSubstr("bad.tar': the archive's entry '../../climbed' climbs out"));
  EXPECT_FALSE(fs::exists(folder_ / "climbed"));
  EXPECT_EQ(staged(), 0U);
  for (const auto& both : {Tar().add("q", "x").add("q/x.jpg", "x").end(),
                           Tar().add("q/x.jpg", "x").add("q", "x").end()})
    EXPECT_THAT(error(folder_.write("both.tar", both)), HasSubstr("as a file and as a folder"));
  EXPECT_EQ(staged(), 0U);
  EXPECT_THAT(error(folder_.write("x.zip", ""), ErrorKind::kUsage),
              HasSubstr("not read as an archive"));
  EXPECT_THAT(error(folder_ / "none.tar"), HasSubstr("there is no archive"));
  EXPECT_THAT(error(folder_.write("empty.tar", "")), HasSubstr("cut off"));
}

}  // namespace
}  // namespace lockstep::data

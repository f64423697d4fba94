// A set that is one archive: whole or not at all, whatever breaks off when.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <random>

#include "base/hash.h"
#include "data/download.h"
#include "support/checkpoint_fault_env.h"
#include "support/temp_folder.h"
#include "unit/data/archive/tars.h"
#include "unit/data/http_server.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string md5_hex(const std::string& text) {
  Digest digest(Digest::Kind::kMd5);
  digest.update(text);
  return digest.hex();
}

// What does not pack well, so that it comes in many pieces.
std::string noise(std::size_t bytes) {
  std::mt19937 random(1);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

const std::string kBatch = noise(200'000);
const std::string kArchive = gzip(Tar()
                                      .add("set/", "", '5')
                                      .add("set/batch", kBatch)
                                      .add("set/readme", "read me")
                                      .add("set/meta", "meta")
                                      .end());

RemoteSet set_of(const std::string& packed, const std::string& address) {
  return {"made-up",
          "below",
          {address},
          {{"set.tar.gz",
            sha256_hex(packed),
            300'000,
            {{"set/batch", md5_hex(kBatch)}, {"set/meta", md5_hex("meta")}}}}};
}

class DownloadArchive : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const char* name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"})
      ::unsetenv(name);
  }
  Status get(const std::string& packed = kArchive) {
    return download(posix_env(), set_of(packed, server_.address()), folder_.path());
  }
  void get_well() {
    const Status status = get();
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_EQ(folder_.read("set/batch"), kBatch);
    EXPECT_EQ(folder_.read("set/meta"), "meta");
  }
  // The error of an archive that another server gives; nothing but `left` is there behind it.
  Error complaint(const std::string& packed, const std::string& answer,
                  const std::vector<std::string>& left = {}) {
    const HttpServer server({{"/set.tar.gz", answer}});
    const Status status = download(posix_env(), set_of(packed, server.address()), folder_.path());
    EXPECT_EQ(names(), left);
    return status.ok() ? Error{} : status.error();
  }
  std::vector<std::string> names() const { return *posix_env().list(folder_.path()); }

  const HttpServer server_{{{"/set.tar.gz", HttpServer::ok(kArchive)}}};
  const test::TempFolder folder_;
};

TEST_F(DownloadArchive, FetchedUnpackedAndThenKept) {
  get_well();
  EXPECT_EQ(folder_.read("set/readme"), "read me");
  EXPECT_THAT(names(), ElementsAre("set", "set.tar.gz"));
  get_well();
  fs::remove(folder_ / "set.tar.gz");  // as after tar, or torchvision
  get_well();
  EXPECT_EQ(server_.requests(), 1);
}

TEST_F(DownloadArchive, WhatIsDamagedOrMissingIsReplacedAndNothingElseTouched) {
  get_well();
  folder_.write("set/mine", "mine");
  for (const std::string packed : {"kept", "damaged", "missing"}) {
    if (packed == "damaged") folder_.write("set.tar.gz", "x");
    if (packed == "missing") fs::remove(folder_ / "set.tar.gz");
    folder_.write("set/batch", kBatch.substr(1));
    fs::remove(folder_ / "set/meta");
    get_well();
    EXPECT_EQ(server_.requests(), packed == "kept" ? 1 : packed == "damaged" ? 2 : 3);
    EXPECT_EQ(folder_.read("set/mine"), "mine");
    EXPECT_THAT(names(), ElementsAre("set", "set.tar.gz"));
  }
}

TEST_F(DownloadArchive, WhatIsSentWrongIsNeverThere) {
  std::string other = kArchive;
  other[100] = static_cast<char>(other[100] ^ 1);
  const Error wrong = complaint(kArchive, HttpServer::ok(other));
  EXPECT_EQ(wrong.kind, ErrorKind::kBadData);
  EXPECT_THAT(wrong.message,
              AllOf(HasSubstr(sha256_hex(other)), HasSubstr(sha256_hex(kArchive)),
                    HasSubstr("fetch the file by hand and put it into '" + folder_.path())));
  const std::string half = kArchive.substr(0, kArchive.size() / 2);
  EXPECT_EQ(complaint(kArchive, HttpServer::ok(half, kArchive.size())).kind,
            ErrorKind::kUnavailable);
}

TEST_F(DownloadArchive, AnArchiveThatClimbsOrLacksAFileIsNotUnpacked) {
  const std::string climbing = gzip(Tar().add("set/meta", "meta").add("../out", "x").end());
  EXPECT_THAT(complaint(climbing, HttpServer::ok(climbing), {"set.tar.gz"}).message,
              AllOf(HasSubstr("set.tar.gz"), HasSubstr("'../out' climbs out")));
  EXPECT_FALSE(fs::exists(fs::path(folder_.path()).parent_path() / "out"));
  const std::string lacking = gzip(Tar().add("set/meta", "meta").end());
  const Error error = complaint(lacking, HttpServer::ok(lacking), {"set.tar.gz"});
  EXPECT_EQ(error.kind, ErrorKind::kBadData);
  EXPECT_THAT(error.message, HasSubstr("'set/batch'"));
}

TEST_F(DownloadArchive, KilledInTheMiddleItLeavesWhatTheNextOneTakesAway) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto die = [](const std::string&, std::uint64_t, std::uint64_t) {
      ::kill(::getpid(), SIGKILL);
    };
    ::_exit(download(posix_env(), set_of(kArchive, server_.address()), folder_.path(), die).ok());
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_THAT(names(), ElementsAre(".tmp-lockstep-set.tar.gz"));
  folder_.write(".tmp-lockstep-unpacked-set.tar.gz/set/meta", "of one that came further");
  get_well();
  EXPECT_THAT(names(), ElementsAre("set", "set.tar.gz"));
}

TEST_F(DownloadArchive, AStopEndsTheTransferAndLeavesNothing) {
  const Status status =
      download_below(folder_.path(), set_of(kArchive, server_.address()), {}, [] { return true; });
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(status.error().message, HasSubstr("stopped"));
  EXPECT_THAT(*posix_env().list(folder_ / "below"), ElementsAre());
}

TEST_F(DownloadArchive, AStopEndsTheUnpackingToo) {
  const RemoteSet set = set_of(kArchive, server_.address());
  const auto fetched = [&] { return fs::exists(folder_ / "below/set.tar.gz"); };
  const Status status = download_below(folder_.path(), set, {}, fetched);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(*posix_env().list(folder_ / "below"), ElementsAre("set.tar.gz"));
  ASSERT_TRUE(download_below(folder_.path(), set, {}, {}).ok());
  EXPECT_EQ(server_.requests(), 1);
}

TEST_F(DownloadArchive, AnEmptyFolderIsAnError) {
  const Status status = download_below("", set_of(kArchive, server_.address()), {}, {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(server_.requests(), 0);
}

TEST_F(DownloadArchive, TwoAtOnceAreNot) {
  Status second;
  const auto begin_another = [&](const std::string&, std::uint64_t, std::uint64_t) {
    second = download_below(folder_.path(), set_of(kArchive, server_.address()), {}, {});
  };
  ASSERT_TRUE(
      download_below(folder_.path(), set_of(kArchive, server_.address()), begin_another, {}).ok());
  EXPECT_EQ(folder_.read("below/set/meta"), "meta");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(second.error().message, HasSubstr("another download or copy into '"));
}

// The disk is full from any call on, and then the power fails.
TEST_F(DownloadArchive, WhateverFailsItIsWholeOrNotThere) {
  const RemoteSet set = set_of(kArchive, server_.address());
  std::uint64_t failed = 0;
  for (std::uint64_t n = 1; failed + 1 == n; ++n) {
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      testing::MemoryEnv env;
      ASSERT_TRUE(env.make_dirs("/d").ok() && env.sync_dir("/").ok());
      env.fail_at(n, true);
      const Status status = download(env, set, "/d");
      if (!status.ok()) {
        failed = n;
        EXPECT_EQ(status.error().kind, ErrorKind::kDisk);
        EXPECT_THAT(status.error().message, HasSubstr("No space left"));
      }
      env.fail_at(0, false);
      env.crash(seed);
      if (env.exists("/d/set")) {
        EXPECT_EQ(*env.read("/d/set/batch", kBatch.size()), kBatch) << n << " " << seed;
        EXPECT_EQ(*env.read("/d/set/meta", 100), "meta") << n << " " << seed;
      } else {
        EXPECT_FALSE(status.ok()) << "it was said to be there";
      }
      ASSERT_TRUE(download(env, set, "/d").ok());
      EXPECT_THAT(*env.list("/d"), ElementsAre("set", "set.tar.gz"));
    }
  }
  EXPECT_GT(failed, 15U);
}

}  // namespace
}  // namespace lockstep::data

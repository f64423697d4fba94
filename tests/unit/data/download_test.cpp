#include "data/download.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "base/hash.h"
#include "base/unique_fd.h"
#include "data/fetch.h"
#include "support/temp_folder.h"
#include "unit/data/http_server.h"
#include "unit/data/idx_bytes.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kPlain = std::string(5000, 'a') + "the content";
const std::string kPacked = gzip(kPlain);

RemoteSet one_file(std::vector<std::string> addresses) {
  return {"made-up",
          "",
          std::move(addresses),
          {{"data.gz", sha256_hex(kPacked), 1000, {{"data", sha256_hex(kPlain)}}}}};
}

class Download : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    for (const char* name : {"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"})
      ::unsetenv(name);
  }
  Status get(std::vector<std::string> addresses) {
    return download(posix_env(), one_file(std::move(addresses)), folder.path());
  }
  // The error of one server that gives `answer`; the folder stays empty.
  Error complaint(const std::string& answer) {
    const HttpServer server({{"/data.gz", answer}});
    const Status status = get({server.address()});
    EXPECT_FALSE(status.ok());
    EXPECT_TRUE(posix_env().list(folder.path())->empty()) << "something was left behind";
    return status.ok() ? Error{} : status.error();
  }
  test::TempFolder folder;
};

TEST_F(Download, GoodFileIsFetchedCheckedUnpackedAndKept) {
  const HttpServer server({{"/data.gz", HttpServer::ok(kPacked)}});
  const Status first = get({server.address()});
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(folder.read("data"), kPlain);
  EXPECT_EQ(folder.read("data.gz"), kPacked);
  EXPECT_THAT(*posix_env().list(folder.path()), ElementsAre("data", "data.gz"));
  ASSERT_TRUE(get({server.address()}).ok());
  EXPECT_EQ(server.requests(), 1);
}

TEST_F(Download, PackedFileThatIsThereIsUnpacked) {
  folder.write("data.gz", kPacked);
  ASSERT_TRUE(get({}).ok());
  EXPECT_EQ(folder.read("data"), kPlain);
}

TEST_F(Download, DamagedFilesThatAreThereAreReplaced) {
  folder.write("data", "damaged");
  folder.write("data.gz", kPacked.substr(0, 20));
  const HttpServer server({{"/data.gz", HttpServer::ok(kPacked)}});
  ASSERT_TRUE(get({server.address()}).ok());
  EXPECT_EQ(folder.read("data"), kPlain);
  EXPECT_EQ(folder.read("data.gz"), kPacked);
}

TEST_F(Download, SecondAddressServesWhenTheFirstDoesNot) {
  const HttpServer bad({{"/data.gz", HttpServer::ok("not it")}}), none({});
  const HttpServer good(
      {{"/data.gz", HttpServer::moved("/elsewhere")}, {"/elsewhere", HttpServer::ok(kPacked)}});
  ASSERT_TRUE(get({bad.address(), none.address(), good.address()}).ok());
  EXPECT_EQ(folder.read("data"), kPlain);
}

TEST_F(Download, CorruptContentIsNeverWritten) {
  std::string corrupt = kPacked;
  corrupt[30] = static_cast<char>(corrupt[30] ^ 1);
  const Error error = complaint(HttpServer::ok(corrupt));
  EXPECT_EQ(error.kind, ErrorKind::kBadData);
  EXPECT_THAT(error.message, AllOf(HasSubstr("/data.gz"), HasSubstr(sha256_hex(corrupt)),
                                   HasSubstr(sha256_hex(kPacked))));
}

TEST_F(Download, TruncatedContentIsNeverWritten) {
  const Error cut = complaint(HttpServer::ok(kPacked.substr(0, 30), kPacked.size()));
  EXPECT_EQ(cut.kind, ErrorKind::kUnavailable);
  const Error short_body = complaint(HttpServer::ok(kPacked.substr(0, 30)));
  EXPECT_EQ(short_body.kind, ErrorKind::kBadData);
}

TEST_F(Download, OversizedContentStopsAtTheLimit) {
  const std::string large(3000000, 'x');
  EXPECT_THAT(complaint(HttpServer::ok(large)).message, HasSubstr("more than the 1000 bytes"));
  EXPECT_THAT(complaint(HttpServer::without_length(large)).message,
              HasSubstr("more than the 1000 bytes"));
}

TEST_F(Download, NobodyAnswers) {
  std::string closed;
  {
    const HttpServer server({});
    closed = server.address();
  }
  const Status status = get({closed});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kUnavailable);
  EXPECT_THAT(status.error().message, AllOf(HasSubstr(closed + "data.gz"), HasSubstr("by hand")));
  const HttpServer empty({});
  EXPECT_THAT(get({empty.address()}).error().message, HasSubstr("404"));
}

TEST_F(Download, RedirectsLeadNeitherRoundNorToFiles) {
  EXPECT_EQ(complaint(HttpServer::moved("/data.gz")).kind, ErrorKind::kUnavailable);
  EXPECT_EQ(complaint(HttpServer::moved("file:///etc/hostname")).kind, ErrorKind::kUnavailable);
}

TEST_F(Download, FolderThatCannotBeWritten) {
  folder.write("file", "in the way");
  const Status status = download(posix_env(), one_file({}), folder / "file/data");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kDisk);
}

TEST_F(Download, ProgressEndsWithTheWhole) {
  const HttpServer server({{"/data.gz", HttpServer::ok(kPacked)}});
  std::uint64_t last = 0, whole = 0;
  const auto progress = [&](const std::string& file, std::uint64_t done, std::uint64_t total) {
    EXPECT_EQ(file, "data.gz");
    EXPECT_GE(done, last);
    last = done;
    whole = total;
  };
  ASSERT_TRUE(download(posix_env(), one_file({server.address()}), folder.path(), progress).ok());
  EXPECT_EQ(last, kPacked.size());
  EXPECT_EQ(whole, kPacked.size());
}

TEST(ProgressLines, WithoutATerminalOneLineAtTheEnd) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd out(ends[0]), in(ends[1]);
  const Progress progress = progress_to(in.get());
  progress("x.gz", 1000000, 2000000);
  progress("x.gz", 2000000, 2000000);
  char text[100];
  const auto n = ::read(out.get(), text, sizeof text);
  EXPECT_EQ(std::string(text, static_cast<std::size_t>(n)), "x.gz: 2.0 MB\n");
}

TEST(ProgressLines, OnATerminalABar) {
  const UniqueFd leader(::posix_openpt(O_RDWR | O_NOCTTY));
  ASSERT_TRUE(leader && ::grantpt(leader.get()) == 0 && ::unlockpt(leader.get()) == 0);
  const UniqueFd terminal(::open(::ptsname(leader.get()), O_RDWR | O_NOCTTY));
  ASSERT_TRUE(static_cast<bool>(terminal));
  ::setenv("TERM", "xterm", 1);  // a machine that builds may have none
  progress_to(terminal.get())("x.gz", 1000000, 2000000);
  char text[200];
  const auto n = ::read(leader.get(), text, sizeof text);
  EXPECT_EQ(std::string(text, static_cast<std::size_t>(n)),
            "\rx.gz  [############............]  50 %  1.0 of 2.0 MB\x1b[K");
}

TEST(RemoteSets, AddressesAndChecksumsAreWellFormed) {
  std::vector<std::string> names;
  for (const RemoteSet& set : remote_sets()) {
    names.push_back(set.name);
    ASSERT_FALSE(set.addresses.empty());
    for (const std::string& address : set.addresses) {
      EXPECT_TRUE(address.starts_with("https://"));
      EXPECT_TRUE(address.ends_with("/"));
    }
    for (const RemoteFile& file : set.files) {
      EXPECT_EQ(file.sha256.size(), 64U);
      EXPECT_TRUE(file.name.ends_with(".gz"));
      EXPECT_GT(file.max_bytes, 0U);
      EXPECT_FALSE(file.unpacked.empty());
      for (const UnpackedFile& each : file.unpacked)
        EXPECT_TRUE(each.digest.size() == 64U || each.digest.size() == 32U) << each.path;
    }
  }
  EXPECT_THAT(names, ElementsAre("mnist", "cifar10", "cifar100"));
}

}  // namespace
}  // namespace lockstep::data

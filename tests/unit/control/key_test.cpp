// Which keys are taken, from where, and how a file of one is made.
#include "control/key.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "support/temp_folder.h"

namespace lockstep::control {
namespace {

using lockstep::test::TempFolder;
using testing::AllOf;
using testing::HasSubstr;

const std::string kGood = "0123456789abcdef0123456789abcdef";

ReadVariable variables(std::map<std::string, std::string> values) {
  return [values = std::move(values)](std::string_view name) -> std::optional<std::string> {
    const auto found = values.find(std::string(name));
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

std::string error_of(const Result<KeyFound>& found) {
  EXPECT_FALSE(found.ok());
  if (found.ok()) return "";
  EXPECT_EQ(found.error().kind, ErrorKind::kUsage);
  return found.error().message;
}

unsigned mode_of(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 ? info.st_mode & 07777u : 0;
}

TEST(RunKey, HasToBeLongAndVaried) {
  for (const std::string& text :
       {std::string(), std::string(" \n"), std::string(31, 'a') + "b", kGood.substr(1),
        std::string(64, '0'), std::string(40, 'a') + "bcdefg", kGood + " " + kGood, kGood + "\x01",
        kGood + "\xc3\xa4", kGood + std::string(1, '\0'), std::string(1025, 'a') + kGood}) {
    const auto key = RunKey::of(text, "from here");
    ASSERT_FALSE(key.ok()) << text;
    EXPECT_EQ(key.error().kind, ErrorKind::kUsage);
    EXPECT_THAT(key.error().message, AllOf(HasSubstr("from here"), HasSubstr("lockstep key")));
    EXPECT_THAT(key.error().message, testing::Not(HasSubstr("0123456789")));
  }
  for (const std::string& text :
       {kGood, " " + kGood + "\r\n", std::string("correct-horse-battery-staple-42-x")})
    EXPECT_TRUE(RunKey::of(text, "here").ok()) << text;
  EXPECT_EQ(RunKey::of(" " + kGood + "\n", "here")->text(), kGood);
}

TEST(RunKey, IsAnotherEachTime) {
  const auto one = RunKey::draw(), other = RunKey::draw();
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->text().size(), 64u);
  EXPECT_NE(one->text(), other->text());
  EXPECT_TRUE(RunKey::of(one->text(), "drawn").ok());
}

TEST(FindKey, TakesTheFirstOfFour) {
  const TempFolder folder;
  const std::string given = folder.write("given", std::string(40, 'g') + "0123456789\n"),
                    usual = folder.write(".config/lockstep/run_key", kGood);
  ::chmod(given.c_str(), 0400);
  ::chmod(usual.c_str(), 0600);
  const std::string other = std::string(40, 'v') + "0123456789";
  std::map<std::string, std::string> all{
      {"HOME", folder.path()}, {"LOCKSTEP_RUN_KEY", other}, {"LOCKSTEP_INSECURE", "1"}};
  auto found = find_key(given, variables(all));
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_THAT(found->key->text(), HasSubstr("ggg"));
  EXPECT_THAT(found->source, HasSubstr("--key-file"));
  EXPECT_THAT(found->said, HasSubstr("LOCKSTEP_INSECURE=1 has no effect"));
  found = find_key({}, variables(all));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->key->text(), other);
  all.erase("LOCKSTEP_RUN_KEY");
  found = find_key({}, variables(all));
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->key->text(), kGood);
  EXPECT_EQ(found->source, usual);
  std::filesystem::remove(usual);
  found = find_key({}, variables(all));
  ASSERT_TRUE(found.ok());
  EXPECT_FALSE(found->key);
  EXPECT_THAT(found->said, HasSubstr("without a key"));
  all["LOCKSTEP_INSECURE"] = "0";
  EXPECT_THAT(error_of(find_key({}, variables(all))),
              AllOf(HasSubstr("--key-file"), HasSubstr("LOCKSTEP_RUN_KEY"), HasSubstr(usual),
                    HasSubstr("LOCKSTEP_INSECURE=1")));
}

// What is there and wrong is not passed over.
TEST(FindKey, AWrongOneIsAnError) {
  const TempFolder folder;
  const ReadVariable none = variables({{"HOME", folder.path()}, {"LOCKSTEP_INSECURE", "1"}});
  EXPECT_THAT(error_of(find_key(folder / "missing", none)), HasSubstr("No such file"));
  EXPECT_THAT(error_of(find_key("", none)), HasSubstr("--key-file ''"));
  EXPECT_THAT(error_of(find_key(folder.path(), none)), HasSubstr("no regular file"));
  EXPECT_THAT(error_of(find_key({}, variables({{"LOCKSTEP_RUN_KEY", ""}}))),
              AllOf(HasSubstr("LOCKSTEP_RUN_KEY"), HasSubstr("is empty")));
  EXPECT_THAT(error_of(find_key({}, variables({{"LOCKSTEP_INSECURE", "yes"}}))),
              HasSubstr("LOCKSTEP_INSECURE='yes'"));
  const std::string file = folder.write(".config/lockstep/run_key", kGood);
  for (const unsigned mode : {0640u, 0604u, 0620u, 0602u, 0777u}) {
    ::chmod(file.c_str(), mode);
    EXPECT_THAT(error_of(find_key({}, none)), HasSubstr("chmod 600 '" + file + "'")) << mode;
    EXPECT_THAT(error_of(find_key(file, none)), HasSubstr("chmod 600 '" + file + "'")) << mode;
  }
  folder.write(".config/lockstep/run_key", "");
  ::chmod(file.c_str(), 0600);
  EXPECT_THAT(error_of(find_key({}, none)), HasSubstr("is empty"));
  folder.write(".config/lockstep/run_key", std::string(5000, 'x'));
  EXPECT_THAT(error_of(find_key({}, none)), HasSubstr("5000 bytes"));
}

// As a Kubernetes secret with an fsGroup, in a pod whose user is not root.
TEST(FindKey, RootMayGiveItToOnesGroup) {
  if (::geteuid() != 0) GTEST_SKIP() << "not root here, who alone can give a file to a group";
  constexpr gid_t kGroup = 12345;
  const TempFolder folder;
  const std::string file = folder.write("key", kGood + "\n");
  ::chmod(folder.path().c_str(), 0755);
  ASSERT_EQ(::chown(file.c_str(), 0, kGroup), 0);
  const auto found_with = [&](mode_t mode) {
    ::chmod(file.c_str(), mode);
    EXPECT_EQ(::setegid(kGroup), 0);
    EXPECT_EQ(::seteuid(12345), 0);
    const bool found = find_key(file, variables({})).ok();
    EXPECT_EQ(::seteuid(0), 0);
    EXPECT_EQ(::setegid(0), 0);
    return found;
  };
  EXPECT_TRUE(found_with(0440));
  for (const mode_t mode : {0460, 0444, 0450}) EXPECT_FALSE(found_with(mode)) << mode;
  ::chmod(file.c_str(), 0440);
  EXPECT_FALSE(find_key(file, variables({})).ok());  // its own user gives it to nobody
}

TEST(FindKey, FollowsLinks) {
  const TempFolder folder;
  ::chmod(folder.write("data/key", kGood + "\n").c_str(), 0400);
  std::filesystem::create_symlink(folder / "data", folder / "..data");
  std::filesystem::create_symlink("..data/key", folder / "key");
  const auto found = find_key(folder / "key", variables({}));
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_EQ(found->key->text(), kGood);
}

TEST(DefaultKeyFile, IsInTheConfigurationFolder) {
  EXPECT_EQ(*default_key_file(variables({{"XDG_CONFIG_HOME", "/c"}, {"HOME", "/h"}})),
            "/c/lockstep/run_key");
  for (const std::string config : {"", "relative"})
    EXPECT_EQ(*default_key_file(variables({{"XDG_CONFIG_HOME", config}, {"HOME", "/h"}})),
              "/h/.config/lockstep/run_key");
}

TEST(WriteKeyFile, MakesItForThisUserAloneAndOnce) {
  const TempFolder folder;
  const std::string path = folder / "a/b/run_key";
  const auto key = RunKey::draw(), other = RunKey::draw();
  const mode_t mask = ::umask(0);
  const Status made = write_key_file(path, *key);
  ::umask(mask);
  ASSERT_TRUE(made.ok()) << made.error().message;
  EXPECT_EQ(mode_of(path), 0600u);
  EXPECT_EQ(mode_of(folder / "a/b"), 0700u);
  EXPECT_EQ(read_key_file(path, "it")->text(), key->text());
  const Status again = write_key_file(path, *other);
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(again.error().message, HasSubstr("never overwritten"));
  EXPECT_EQ(read_key_file(path, "it")->text(), key->text());
  std::filesystem::create_symlink("nowhere", folder / "a/b/link");
  EXPECT_FALSE(write_key_file(folder / "a/b/link", *key).ok());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / "a/b"), {}), 2);
}

}  // namespace
}  // namespace lockstep::control

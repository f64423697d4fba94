#include "data/digits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <set>

#include "base/hash.h"
#include "data/glyphs.h"
#include "data/images.h"
#include "support/temp_folder.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;

// Bytes that every machine must draw; they change only with the folder's name (digits-v1).
const std::map<std::string, std::string> kHashes = {
    {"train-images-idx3-ubyte", "a140cc41457a10cb0edb2dd3d9a7cb8616e31ef46b77dc08cd6bec982425dd32"},
    {"train-labels-idx1-ubyte", "d8c2735eef4ff1034ad1bd7b29fa99206181579f508190b4122008e852bddd6a"},
    {"t10k-images-idx3-ubyte", "c63545d6262bb0ee33c5c82559f1d009291d11c628ab4525f8bd09f086fc4e0e"},
    {"t10k-labels-idx1-ubyte", "17ab5df349e78ddd66c77a1ada4c76966df6c32c29a03d130a40f20020717e4c"},
};

int draw_in_child(const std::string& folder) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(ensure_digits(posix_env(), folder).ok() ? 0 : 1);
  return child;
}

TEST(Digits, SeveralWritersOverRemainsGiveTheSameBytesEverywhere) {
  const test::TempFolder folder;
  folder.write("t10k-labels-idx1-ubyte", "cut short");
  folder.write(".tmp-lockstep-1-2/train-images-idx3-ubyte", "a killed writer's");
  std::vector<pid_t> children;
  for (int i = 0; i < 3; ++i) children.push_back(draw_in_child(folder.path()));
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  for (const auto& [name, hash] : kHashes) EXPECT_EQ(sha256_hex(folder.read(name)), hash) << name;
  const std::vector<std::string> names = *posix_env().list(folder.path());
  EXPECT_EQ(names.size(), 4U) << "something was left behind";

  const auto written = std::filesystem::last_write_time(folder / "train-images-idx3-ubyte");
  ASSERT_TRUE(ensure_digits(posix_env(), folder.path()).ok());
  EXPECT_EQ(std::filesystem::last_write_time(folder / "train-images-idx3-ubyte"), written);

  const auto test = read_mnist(posix_env(), folder.path(), test_files());
  ASSERT_TRUE(test.ok()) << test.error().message;
  EXPECT_EQ(test->count(), kTestDigits);
  std::map<int, int> labels;
  for (const std::uint8_t label : test->labels.values()) ++labels[label];
  ASSERT_EQ(labels.size(), 10U);
  for (const auto& [label, count] : labels) EXPECT_NEAR(count, 1000, 150) << label;
}

TEST(Digits, APictureDependsOnItsIndexAlone) {
  const Digit first = draw_digit(70);
  draw_digit(3);
  const Digit again = draw_digit(70);
  EXPECT_EQ(first.pixels, again.pixels);
  EXPECT_EQ(first.label, again.label);
  std::set<std::array<std::uint8_t, 784>> different;
  for (std::uint64_t i = 0; i < 300; ++i) different.insert(draw_digit(i).pixels);
  EXPECT_EQ(different.size(), 300U);
}

TEST(Digits, EveryDigitHasSeveralWaysWithinTheBox) {
  for (int digit = 0; digit < 10; ++digit) {
    const auto& ways = ways_of_writing(digit);
    EXPECT_GE(ways.size(), 3U);
    for (const Glyph& glyph : ways)
      for (const Stroke& stroke : glyph) {
        EXPECT_GE(stroke.points.size(), 2U);
        for (const Point& p : stroke.points)
          EXPECT_TRUE(p.x >= 0 && p.x <= 100 && p.y >= 0 && p.y <= 100) << digit;
      }
  }
}

TEST(Digits, AFolderThatCannotBeMadeIsADiskError) {
  const test::TempFolder folder;
  folder.write("file", "in the way");
  const Status status = ensure_digits(posix_env(), folder / "file/digits");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kDisk);
  EXPECT_THAT(status.error().message, HasSubstr(folder / "file"));
}

TEST(Digits, DefaultFolderFollowsTheEnvironment) {
  const test::TempFolder cache, home;
  ::setenv("HOME", home.path().c_str(), 1);
  ::setenv("XDG_CACHE_HOME", cache.path().c_str(), 1);
  EXPECT_EQ(*default_digits_folder(), cache / "lockstep/digits-v1");
  // Relative, a file, and none: the home's.
  cache.write("file", "in the way");
  for (const std::string& none : {std::string("relative"), cache / "file", std::string()}) {
    ::setenv("XDG_CACHE_HOME", none.c_str(), 1);
    EXPECT_EQ(*default_digits_folder(), home / ".cache/lockstep/digits-v1") << none;
  }
  ::unsetenv("XDG_CACHE_HOME");
  EXPECT_EQ(*default_digits_folder(), home / ".cache/lockstep/digits-v1");
  // A home that is not there is not made.
  ::setenv("HOME", (home / "none").c_str(), 1);
  (void)default_digits_folder().ok();
  EXPECT_FALSE(posix_env().exists(home / "none"));
}

}  // namespace
}  // namespace lockstep::data

#include "rundir/standstills.h"

#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace lockstep::rundir {
namespace {

TEST(Standstills, ReadAsWritten) {
  const test::TempFolder folder;
  const auto none = read_standstills(posix_env(), folder.path());
  ASSERT_TRUE(none.ok());
  EXPECT_TRUE(none->empty());
  const std::vector<Standstill> learnt{{"forward", 75.25, 0}, {"idle", 12, 600.125}};
  ASSERT_TRUE(write_standstills(posix_env(), folder.path(), learnt).ok());
  const auto read = read_standstills(posix_env(), folder.path());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, learnt);
}

TEST(Standstills, AFileThatSaysSomethingElseIsNamed) {
  for (const std::string text :
       {"", "x", "{}", "[1]", "[{}]", R"([{"phase":1,"longest_s":1,"cut_short_s":1}])",
        R"([{"phase":"idle","longest_s":-1,"cut_short_s":0}])",
        R"([{"phase":"idle","longest_s":1e300,"cut_short_s":0}])",
        R"([{"phase":"idle","longest_s":1}])",
        R"([{"phase":"idle","longest_s":"1","cut_short_s":0}])"}) {
    const test::TempFolder folder;
    const std::string path = folder / "standstills.json";
    ASSERT_TRUE(write_atomically(posix_env(), path, text).ok());
    const auto read = read_standstills(posix_env(), folder.path());
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.error().kind, ErrorKind::kBadData);
    EXPECT_NE(read.error().message.find(path), std::string::npos) << read.error().message;
  }
}

}  // namespace
}  // namespace lockstep::rundir

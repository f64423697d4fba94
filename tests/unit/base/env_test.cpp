// Paths as a run's records and messages have them.
#include "base/env.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "support/temp_folder.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::string absolute(const std::string& path) {
  const auto whole = absolute_path(path);
  EXPECT_TRUE(whole.ok()) << path;
  return whole.ok() ? *whole : "";
}

TEST(AbsolutePath, HasNoDots) {
  const test::TempFolder folder;
  const std::string root = folder.path();
  for (const char* path : {"/a/b", "/a//b/", "/./a/./b/.", "/a/none/../b", "/x/../a/b", "/a/b//"})
    EXPECT_EQ(absolute(root + path), root + "/a/b") << path;
  EXPECT_EQ(absolute("/../../a"), "/a");
  EXPECT_EQ(absolute("/"), "/");
  EXPECT_EQ(absolute("x/"), (fs::current_path() / "x").string());
  EXPECT_FALSE(absolute_path("").ok());
}

// To the kernel "link/.." is the folder above the link's target.
TEST(AbsolutePath, DotsBehindALinkLeadWhereTheyLead) {
  const test::TempFolder folder;
  const std::string root = fs::canonical(folder.path()).string();
  fs::create_directories(root + "/far/away/deep");
  fs::create_directory_symlink("far/away", root + "/link");
  fs::create_directory_symlink("link/deep", root + "/link2");
  EXPECT_EQ(absolute(root + "/link/run"), root + "/link/run");
  EXPECT_EQ(absolute(root + "/link/deep/../run"), root + "/link/run");
  EXPECT_EQ(absolute(root + "/link/../run"), root + "/far/run");
  EXPECT_EQ(absolute(root + "/link2/../run"), root + "/far/away/run");
  EXPECT_EQ(absolute(root + "/link2/../../run"), root + "/far/run");
}

}  // namespace
}  // namespace lockstep

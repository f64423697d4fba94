// No output takes the place of what a command reads.
#include <gtest/gtest.h>

#include <filesystem>

#include "inspect/commands.h"
#include "inspect/files.h"
#include "support/temp_folder.h"
#include "unit/inspect/support.h"

namespace lockstep::inspect {
namespace {

class Outputs : public testing::Test {
 protected:
  bool refused(const std::string& out, const Texts& inputs) {
    const Status status = check_not_read(posix_env(), out, inputs);
    if (status.ok()) return false;
    EXPECT_EQ(status.error().kind, ErrorKind::kUsage);
    EXPECT_NE(status.error().message.find("would be lost; give another name"), std::string::npos)
        << status.error().message;
    return true;
  }

  test::TempFolder folder_;
};

TEST_F(Outputs, AnInputByWhateverName) {
  const std::string runs = folder_.write("runs.json", "{}"), other = folder_.write("b.json", "{}");
  std::filesystem::create_hard_link(runs, folder_ / "again");
  std::filesystem::create_symlink("runs.json", folder_ / "link");
  std::filesystem::create_directory(folder_ / "a");
  for (const char* out : {"runs.json", "again", "link", "a/../runs.json", "./b.json"})
    EXPECT_TRUE(refused(folder_ / out, {other, runs})) << out;
  for (const char* out : {"page.html", "runs.json2", "none/runs.json"})
    EXPECT_FALSE(refused(folder_ / out, {other, runs})) << out;
  EXPECT_FALSE(refused(other, {runs}));
}

TEST_F(Outputs, WhatAFolderAmongTheInputsHas) {
  for (const char* name : {"run/metrics.jsonl", "run/page.html", "run/deep/w.pt", "run/a/1.png"})
    folder_.write(name, "mine");
  std::filesystem::create_directory_symlink("run/a", folder_ / "link");
  for (const char* out : {"run/metrics.jsonl", "run/a/1.png", "link/1.png"})
    EXPECT_TRUE(refused(folder_ / out, {folder_ / "run"})) << out;
  for (const char* out : {"run/page.html", "run/deep/w.pt", "run/new.csv", "elsewhere"})
    EXPECT_FALSE(refused(folder_ / out, {folder_ / "run"})) << out;
}

TEST_F(Outputs, AReportsPage) {
  const std::string text = R"({"runs":[{"name":"x"}]})";
  const std::string runs = folder_.write("runs.json", text);
  const auto answer = report_command(posix_env(), Texts{runs, "--out", runs});
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.error().kind, ErrorKind::kUsage);
  EXPECT_EQ(test::read_text(runs), text);
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(report_command(posix_env(), Texts{runs, "--out", folder_ / "page.html"}).ok());
}

}  // namespace
}  // namespace lockstep::inspect

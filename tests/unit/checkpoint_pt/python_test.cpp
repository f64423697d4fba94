// Against torch itself: peer.py saves, we read and write again, peer.py loads that and compares.
#include "support/python.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "unit/checkpoint_pt/old_files.h"

namespace lockstep::checkpoint::pt::test {
namespace {

// With what it says of errors.
std::string output_of(const std::string& command) {
  return lockstep::test::output_of(command + " 2>&1");
}

std::vector<std::filesystem::path> files_of(const std::string& folder, const std::string& suffix) {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == suffix) paths.push_back(entry.path());
  std::ranges::sort(paths);
  return paths;
}

std::string expected_of(std::filesystem::path path) {
  return lockstep::test::read_text(path.replace_extension(".txt"));
}

// Written again, where everything in it can be.
void write_again(std::filesystem::path path, const Value& value) {
  if (path.filename().string().starts_with("numpy")) return;
  const Status written = write(posix_env(), path.replace_extension(".ours").string(), value);
  EXPECT_TRUE(written.ok()) << (written.ok() ? "" : written.error().message);
  if (path.stem() == "snapshot-zip") {  // and once with all sizes and places in zip64 fields
    MemoryOut out;
    EXPECT_TRUE(write_to(out, "archive", value, 0).ok());
    std::ofstream(path.replace_filename("snapshot64.ours"), std::ios::binary) << out.content;
    std::filesystem::copy_file(path.replace_filename("snapshot-zip.txt"),
                               path.parent_path() / "snapshot64.txt");
  }
}

TEST(PtPython, WeReadPythonsAndPythonReadsOurs) {
  const std::string interpreter = lockstep::test::python_with("torch, numpy");
  if (interpreter.empty()) GTEST_SKIP() << "no Python with torch and numpy; set LOCKSTEP_PYTHON";
  const lockstep::test::TempFolder folder;
  const std::string peer = interpreter + " " + LOCKSTEP_PEER;
  ASSERT_EQ(output_of(peer + " make " + folder.path()), "");
  const auto files = files_of(folder.path(), ".pt");
  EXPECT_EQ(files.size(), 14U * 6);
  for (const auto& path : files) {
    const auto value = read(posix_env(), path.string());
    ASSERT_TRUE(value.ok()) << value.error().message;
    EXPECT_EQ(show(*value), expected_of(path)) << path;
    write_again(path, *value);
  }
  EXPECT_EQ(output_of(peer + " check " + folder.path()), "79 files\n");
  for (const auto& path : files_of(folder.path(), ".pickle")) {
    const std::string content = lockstep::test::read_text(path);
    EXPECT_EQ(pickle::test::shown(content), expected_of(path)) << path;
  }
}

// What has no form here never keeps the rest of a file from being read.
TEST(PtPython, WhatWeLackIsALeafAndTheRestIsRead) {
  const std::string interpreter = lockstep::test::python_with("torch, numpy");
  if (interpreter.empty()) GTEST_SKIP() << "no Python with torch and numpy; set LOCKSTEP_PYTHON";
  const lockstep::test::TempFolder folder;
  ASSERT_EQ(output_of(interpreter + " " + LOCKSTEP_PEER + " odd " + folder.path()), "");
  const auto files = files_of(folder.path(), ".pt");
  EXPECT_GT(files.size(), 150U);
  for (const auto& path : files) {
    const auto value = read(posix_env(), path.string());
    ASSERT_TRUE(value.ok()) << value.error().message;
    auto expected = path;
    expected.replace_extension(".txt");
    if (!std::filesystem::exists(expected)) continue;  // it is read, whatever it is
    EXPECT_EQ(show(*value), expected_of(path)) << path;
  }
}

TEST(PtPython, OldFilesOfOurMakingAreWhatPythonTakesThemFor) {
  const std::string interpreter = lockstep::test::python_with("torch, numpy");
  if (interpreter.empty()) GTEST_SKIP() << "no Python with torch and numpy; set LOCKSTEP_PYTHON";
  const lockstep::test::TempFolder folder;
  std::vector<OldFile> files = old_tensors();
  files.push_back(old_stream());
  files.push_back(gpu_stream());
  for (const OldFile& file : files) {
    folder.write(file.name + ".old", file.content);
    folder.write(file.name + ".txt", file.shown);
  }
  EXPECT_EQ(output_of(interpreter + " " + LOCKSTEP_PEER + " old " + folder.path()), "11 files\n");
}

}  // namespace
}  // namespace lockstep::checkpoint::pt::test

#include "data/vision/image_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "support/temp_folder.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names(const ImageFolder& folder, const std::string& root) {
  std::vector<std::string> all;
  for (const ImageFile& file : folder.files)
    all.push_back(std::to_string(file.label) + " " + file.path.substr(root.size() + 1));
  return all;
}

Error error_of(const std::string& root) {
  const auto read = read_image_folder(root);
  return read.ok() ? Error{ErrorKind::kInternal, "no error"} : read.error();
}

// Folders are sorted as whole paths, '-' before '/', capitals before small letters.
TEST(ImageFolder, OrderIsTorchvisions) {
  const test::TempFolder root;
  for (const char* name : {"b/2.JPG", "b/10.png", "b/x/1.jpeg", "b/x-y/1.jpg", "b/x/z/1.jpg",
                           "B/1.jpg", "b/.jpg", "b/notes.txt", "a.jpg"})
    root.write(name, "x");
  const auto folder = read_image_folder(root.path());
  ASSERT_TRUE(folder.ok()) << folder.error().message;
  EXPECT_THAT(folder->classes, ElementsAre("B", "b"));
  EXPECT_THAT(names(*folder, root.path()),
              ElementsAre("0 B/1.jpg", "1 b/.jpg", "1 b/10.png", "1 b/2.JPG", "1 b/x/1.jpeg",
                          "1 b/x-y/1.jpg", "1 b/x/z/1.jpg"));
  EXPECT_EQ(folder->files[0].bytes, 1U);
}

TEST(ImageFolder, LinksAreFollowed) {
  const test::TempFolder root;
  const test::TempFolder elsewhere;
  elsewhere.write("1.png", "x");
  fs::create_directory_symlink(elsewhere.path(), root / "cat");
  const auto folder = read_image_folder(root.path());
  ASSERT_TRUE(folder.ok()) << folder.error().message;
  EXPECT_THAT(names(*folder, root.path()), ElementsAre("0 cat/1.png"));
}

TEST(ImageFolder, WhatIsWrongIsNamed) {
  const test::TempFolder root;
  EXPECT_EQ(error_of(root / "none").kind, ErrorKind::kBadData);
  EXPECT_THAT(error_of(root / "none").message, HasSubstr("No such file"));
  EXPECT_THAT(error_of(root.path()).message, HasSubstr("one folder for each class"));
  fs::create_directory(root / "cat");
  EXPECT_THAT(error_of(root.path()).message, HasSubstr("class 'cat' has no picture"));
  root.write("cat/1.bmp", "x");
  EXPECT_THAT(error_of(root.path()).message, HasSubstr("1.bmp' is in a format that is not read"));
}

TEST(ImageFolder, WhatIsNoPictureIsBadData) {
  const test::TempFolder root;
  const auto expect_bad = [&](const char* words) {
    const Error error = error_of(root.path());
    EXPECT_EQ(error.kind, ErrorKind::kBadData);
    EXPECT_THAT(error.message, AllOf(HasSubstr("cat/1.jpg'"), HasSubstr(words)));
    fs::remove(root / "cat/1.jpg");
  };
  fs::create_directory(root / "cat");
  ASSERT_EQ(::mkfifo((root / "cat/1.jpg").c_str(), 0600), 0);
  expect_bad("is no regular file; move it away");
  fs::create_symlink("/dev/zero", root / "cat/1.jpg");
  expect_bad("is no regular file; move it away");
  fs::create_symlink("nowhere", root / "cat/1.jpg");
  expect_bad("No such file");
  fs::create_symlink("1.jpg", root / "cat/1.jpg");
  expect_bad("Too many levels of symbolic links");
}

TEST(ImageFolder, ALinkToItselfEnds) {
  const test::TempFolder root;
  root.write("cat/1.png", "x");
  fs::create_directory_symlink(root / "cat", root / "cat/again");
  EXPECT_THAT(error_of(root.path()).message, HasSubstr("lead back"));
}

}  // namespace
}  // namespace lockstep::data

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
  root.write("cat/._1.jpg", "x");
  EXPECT_THAT(error_of(root.path()).message,
              HasSubstr("class 'cat' has no picture (.jpg, .jpeg, .png), but 1 ._*, 1 .bmp"));
  fs::rename(root / "cat", root / ".git");
  EXPECT_THAT(error_of(root.path()).message, HasSubstr("no folder in it has a picture"));
}

TEST(ImageFolder, TheNameAloneDecidesWhatIsInTheSet) {
  const test::TempFolder root;
  for (const char* name :
       {"cat/1.jpg", "cat/2.JPEG", "cat/3.png.PNG", "cat/.hidden.jpg", "cat/4.gif", "cat/5.GIF",
        "cat/6.bmp", "cat/notes.txt", "cat/Thumbs.db", "cat/.DS_Store", "cat/7.jfif", "cat/8jpg",
        "cat/._1.jpg", "cat/deep/._2.png", "__MACOSX/cat/._1.jpg", ".ipynb_checkpoints/x.ipynb",
        "lost.png", "readme.md"})
    root.write(name, "x");
  const auto folder = read_image_folder(root.path());
  ASSERT_TRUE(folder.ok()) << folder.error().message;
  EXPECT_THAT(folder->classes, ElementsAre("cat"));
  EXPECT_THAT(names(*folder, root.path()),
              ElementsAre("0 cat/.hidden.jpg", "0 cat/1.jpg", "0 cat/2.JPEG", "0 cat/3.png.PNG"));
  EXPECT_EQ(left_out_by_name(*folder),
            "pictures in '" + root.path() +
                "': not in the set by their names: 2 ._*, 2 .gif, 1 .bmp, 1 .db, 1 .ds_store, 1 "
                ".jfif, 1 .txt, 1 no ending, 1 picture beside the classes' folders, folder "
                "'.ipynb_checkpoints', folder '__MACOSX' (.jpg, .jpeg and .png are); rename JPEG "
                "files to .jpg; convert the others, as by ImageMagick's `mogrify -format png "
                "FILES`");
  root.write("__MACOSX/1.png", "x");
  EXPECT_THAT(read_image_folder(root.path())->classes, ElementsAre("__MACOSX", "cat"));
}

TEST(ImageFolder, NothingIsSaidOfAFolderThatIsWholeInTheSet) {
  const test::TempFolder root;
  root.write("cat/1.jpg", "x");
  EXPECT_EQ(left_out_by_name(*read_image_folder(root.path())), "");
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

#include "data/images.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_folder.h"
#include "unit/data/idx_bytes.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kImages = idx_bytes(0x08, {3, 2, 2}, "abcdefghijkl");
const std::string kLabels = idx_bytes(0x08, {3}, std::string("\x00\x09\x04", 3));

class Images : public ::testing::Test {
 protected:
  std::string complaint(const std::string& images, const std::string& labels) {
    folder.write("i", images);
    folder.write("l", labels);
    const auto result = read_images(posix_env(), folder / "i", folder / "l");
    if (result.ok()) return "accepted";
    EXPECT_EQ(result.error().kind, ErrorKind::kBadData);
    return result.error().message;
  }
  test::TempFolder folder;
};

TEST_F(Images, GoodPair) {
  folder.write("i", kImages);
  folder.write("l", gzip(kLabels));
  const auto both = read_images(posix_env(), folder / "i", folder / "l");
  ASSERT_TRUE(both.ok()) << both.error().message;
  EXPECT_EQ(both->count(), 3);
  EXPECT_EQ(both->rows(), 2);
  EXPECT_EQ(both->columns(), 2);
  EXPECT_EQ(both->labels.values()[1], 9);
}

TEST_F(Images, LabelOutOfRangeIsNamedWithIndexAndFile) {
  const std::string labels = idx_bytes(0x08, {3}, std::string("\x00\x01\x0a", 3));
  EXPECT_THAT(
      complaint(kImages, labels),
      AllOf(HasSubstr(folder / "l"), HasSubstr("label 10 at index 2"), HasSubstr("0 to 9")));
}

TEST_F(Images, CountsMustAgree) {
  EXPECT_THAT(complaint(kImages, idx_bytes(0x08, {2}, "\x01\x02")),
              AllOf(HasSubstr("2 labels"), HasSubstr("3 images")));
}

TEST_F(Images, MixedUpFilesAreNoticed) {
  EXPECT_THAT(complaint(kLabels, kLabels),
              AllOf(HasSubstr(folder / "i"), HasSubstr("rank 1"), HasSubstr("rank 3")));
  EXPECT_THAT(complaint(kImages, kImages), AllOf(HasSubstr(folder / "l"), HasSubstr("rank 3")));
  EXPECT_THAT(complaint(idx_bytes(0x09, {3, 2, 2}, "abcdefghijkl"), kLabels), HasSubstr("type 9"));
}

TEST_F(Images, NoImagesAtAll) {
  EXPECT_THAT(complaint(idx_bytes(0x08, {0, 28, 28}, ""), idx_bytes(0x08, {0}, "")),
              HasSubstr("no images"));
}

TEST_F(Images, EveryLayoutIsFound) {
  const std::vector<std::pair<std::string, std::string>> layouts = {
      {"a/MNIST/raw/train-images-idx3-ubyte", "a/MNIST/raw/train-labels-idx1-ubyte"},
      {"b/raw/train-images-idx3-ubyte.gz", "b/raw/train-labels-idx1-ubyte"},
      {"c/train-images-idx3-ubyte", "c/train-labels-idx1-ubyte.gz"},
      {"d/train-images.idx3-ubyte", "d/train-labels.idx1-ubyte"},
  };
  for (const auto& [images, labels] : layouts) {
    folder.write(images, images.ends_with(".gz") ? gzip(kImages) : kImages);
    folder.write(labels, labels.ends_with(".gz") ? gzip(kLabels) : kLabels);
    const auto both = read_mnist(posix_env(), folder / images.substr(0, 1), train_files());
    ASSERT_TRUE(both.ok()) << both.error().message;
    EXPECT_EQ(both->count(), 3);
  }
}

TEST_F(Images, MissingFilesSayWhereAndWhatToDo) {
  folder.write("train-images-idx3-ubyte", kImages);
  const auto labels = read_mnist(posix_env(), folder.path(), train_files());
  ASSERT_FALSE(labels.ok());
  EXPECT_EQ(labels.error().kind, ErrorKind::kBadData);
  EXPECT_THAT(labels.error().message,
              AllOf(HasSubstr(folder.path()), HasSubstr("train-labels-idx1-ubyte"),
                    HasSubstr("lockstep data get mnist"), HasSubstr("--data synthetic")));
  const auto nowhere = read_mnist(posix_env(), folder / "none", test_files());
  ASSERT_FALSE(nowhere.ok());
  EXPECT_THAT(nowhere.error().message, HasSubstr("no such folder"));
}

}  // namespace
}  // namespace lockstep::data

// `lockstep data show`: sets that are written here, and the page of them.
#include <gtest/gtest.h>

#include <algorithm>

#include "data/image/decode.h"
#include "inspect/commands.h"
#include "inspect/data/augmentation.h"
#include "inspect/data/pictures.h"
#include "inspect/data/png_writer.h"
#include "inspect/data/sheet.h"
#include "support/temp_folder.h"
#include "unit/data/idx_bytes.h"
#include "unit/inspect/support.h"

namespace lockstep::inspect {
namespace {

using data::image::Image;

Image drawn(int width, int height, int seed) {
  Image image(width, height);
  for (std::size_t i = 0; i < image.bytes(); ++i)
    image.data()[i] = static_cast<std::uint8_t>(i * 7 + static_cast<std::size_t>(seed) * 31);
  return image;
}

std::string png_of(const Image& image) {
  const auto bytes = encode_png(image);
  EXPECT_TRUE(bytes.ok());
  return bytes.ok() ? std::string(bytes->begin(), bytes->end()) : "";
}

bool same(const Image& a, const Image& b) {
  return a.width() == b.width() && a.height() == b.height() &&
         std::equal(a.data(), a.data() + a.bytes(), b.data());
}

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++count;
  return count;
}

class DataShow : public testing::Test {
 protected:
  std::string show(Texts words) {
    words.insert(words.begin(), "show");
    const auto result = data_command(posix_env(), words);
    EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
    return result.ok() ? result->text : "";
  }
  Error error_of(Texts words) {
    words.insert(words.begin(), "show");
    const auto result = data_command(posix_env(), words);
    EXPECT_FALSE(result.ok());
    return result.ok() ? Error{} : result.error();
  }
  // Three training pictures of two classes, one for validation.
  std::string folders() {
    folder_.write("set/Train/cat/a.png", png_of(drawn(200, 100, 1)));
    folder_.write("set/Train/cat/b.png", png_of(drawn(40, 30, 2)));
    folder_.write("set/Train/<dog>/c.png", png_of(drawn(33, 33, 3)));
    folder_.write("set/Validation/cat/d.png", png_of(drawn(30, 30, 4)));
    return folder_ / "set";
  }
  test::TempFolder folder_;
};

TEST(Png, IsReadBackAsItWas) {
  for (const auto& [width, height] : {std::pair(1, 1), std::pair(17, 9), std::pair(300, 200)}) {
    const Image image = drawn(width, height, 5);
    const auto bytes = encode_png(image);
    ASSERT_TRUE(bytes.ok());
    Image again;
    ASSERT_TRUE(data::image::decode(*bytes, "x", again).ok());
    EXPECT_TRUE(same(image, again));
  }
}

TEST_F(DataShow, FoldersWithSplits) {
  EXPECT_EQ(show({folders()}),
            "folders of pictures by class\nTrain: 3 pictures in 2 classes\n  <dog>  1\n  cat    2\n"
            "Validation: 1 picture in 1 class\n  cat  1\n");
  const std::string out = folder_ / "sheet.html";
  show({folders() + "/", "--out", out});
  const std::string page = test::read_text(out);
  // Each of the three once as it is and in three epochs; the fourth is not of the training set.
  EXPECT_EQ(count_of(page, "<img "), 3 * 4 + 1U);
  EXPECT_EQ(count_of(page, "src=\"data:image/png;base64,iVBORw0KGgo"), 13U);
  EXPECT_EQ(count_of(page, "src="), 13U);
  EXPECT_EQ(count_of(page, "AutoAugment(IMAGENET), Resize((244, 244))"), 1U);
  EXPECT_EQ(count_of(page, "<dog>"), 0U);
  EXPECT_EQ(count_of(page, "&lt;dog&gt;/c.png, 33 × 33"), 1U);
  EXPECT_EQ(count_of(page, "cat/a.png, 200 × 100"), 1U);
  EXPECT_EQ(count_of(page, "http"), 0U);
  // Before and after are said, under each and to who points at it.
  EXPECT_EQ(count_of(page, ">original</span>"), 3U);
  EXPECT_EQ(count_of(page, ">epoch 2</span>"), 3U);
  EXPECT_EQ(count_of(page, "title=\"augmented, epoch 2\""), 3U);
  EXPECT_EQ(count_of(page, "title=\"cat/d.png\""), 1U);
  show({folders(), "--out", folder_ / "again.html"});
  EXPECT_EQ(test::read_text(folder_ / "again.html"), page);
}

// Train has 1 and 2 pictures, Validation 0 and 1: one scale, and none for nothing.
TEST_F(DataShow, EachSplitHasBars) {
  const std::string out = folder_ / "sheet.html";
  show({folders(), "--out", out});
  const std::string page = test::read_text(out);
  EXPECT_EQ(count_of(page, "class=\"bar\""), 4U);
  EXPECT_EQ(count_of(page, "width:48px;background:var(--s0)"), 1U);
  EXPECT_EQ(count_of(page, "width:96px;background:var(--s0)"), 1U);
  EXPECT_EQ(count_of(page, "width:0px;background:var(--s1)"), 1U);
  EXPECT_EQ(count_of(page, "width:48px;background:var(--s1)"), 1U);
}

TEST_F(DataShow, OneFolderWithoutSplitsAndOtherAugmentation) {
  const std::string out = folder_ / "sheet.html";
  EXPECT_EQ(show({folders() + "/Train", "--out", out, "--samples=1", "--augment", "flip=1"})
                .substr(0, 58),
            "folders of pictures by class\nall: 3 pictures in 2 classes\n");
  const std::string page = test::read_text(out);
  EXPECT_EQ(count_of(page, "<img "), 2 * 4U);
  EXPECT_EQ(count_of(page, "RandomHorizontalFlip(1)"), 1U);
  show({folders(), "--out", out, "--augment", "none"});
  EXPECT_EQ(count_of(test::read_text(out), "<img "), 4U);
}

TEST_F(DataShow, ADamagedPictureIsNamedAndTheRestIsShown) {
  const std::string set = folders();
  folder_.write("set/Train/cat/a.png", "no picture");
  const auto data = open_pictures(posix_env(), set);
  ASSERT_TRUE(data.ok());
  const auto sheet = make_sheet(*data, "x", {});
  ASSERT_TRUE(sheet.ok());
  ASSERT_EQ(sheet->damaged.size(), 1U);
  EXPECT_NE(sheet->damaged[0].find("Train/cat/a.png"), std::string::npos);
  EXPECT_EQ(count_of(sheet->html, "<img "), 3U);
  EXPECT_EQ(count_of(sheet->html, "cannot be shown: "), 1U);
}

TEST_F(DataShow, Cifar) {
  const std::string names =
      "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n";
  folder_.write("bin/batches.meta.txt", names);
  std::string record(1 + 3072, '\x05');
  for (std::size_t i = 0; i < 3072; ++i) record[1 + i] = static_cast<char>(i % 251);
  folder_.write("bin/test_batch.bin", record + record);
  const auto data = open_pictures(posix_env(), folder_ / "bin");
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->format, "CIFAR-10");
  ASSERT_EQ(data->splits.size(), 1U);
  EXPECT_EQ(data->splits[0].name, "test");
  EXPECT_EQ(by_class(*data->splits.begin())[5].size(), 2U);
  Image image;
  ASSERT_TRUE(data->splits[0].picture(1, image).ok());
  EXPECT_EQ(image.row(1)[3 * 2 + 1], (1024 + 32 + 2) % 251);  // green of (2, 1)
}

TEST_F(DataShow, Mnist) {
  const std::string pixels = "\x01\x02\x03\x04\x05\x06";
  folder_.write("t10k-images-idx3-ubyte", data::idx_bytes(8, {1, 2, 3}, pixels));
  folder_.write("t10k-labels-idx1-ubyte", data::idx_bytes(8, {1}, "\x07"));
  const auto data = open_pictures(posix_env(), folder_.path());
  ASSERT_TRUE(data.ok()) << data.error().message;
  EXPECT_EQ(data->format, "MNIST");
  EXPECT_EQ(data->splits[0].labels, (std::vector<std::size_t>{7}));
  Image image;
  ASSERT_TRUE(data->splits[0].picture(0, image).ok());
  EXPECT_EQ(image.width(), 3);
  EXPECT_EQ(image.row(1)[0], 4);
  EXPECT_EQ(image.row(1)[2], 4);
}

TEST_F(DataShow, WhatIsNoSetIsRefused) {
  const auto refused = [&](const Texts& words, ErrorKind kind, const std::string& says) {
    const Error error = error_of(words);
    EXPECT_EQ(error.kind, kind);
    EXPECT_NE(error.message.find(says), std::string::npos) << error.message;
  };
  refused({folder_ / "nowhere"}, ErrorKind::kBadData, "does not exist");
  refused({folder_.write("file", "")}, ErrorKind::kBadData, "is no folder");
  refused({folder_.path()}, ErrorKind::kBadData, "no data set that is known here");
  folder_.write("bin/test_batch.bin", "short");
  refused({folder_ / "bin"}, ErrorKind::kBadData, "bin");
  refused({folders(), "--samples", "0"}, ErrorKind::kUsage, "must be 1 to 1000");
  refused({folders(), "--augment", "spin"}, ErrorKind::kUsage, "'spin' is not known");
  refused({folders(), "--augment", "crop=0", "--out", folder_ / "x"}, ErrorKind::kUsage,
          "RandomCrop to 0 x 0 pixels");
  folder_.write("set/ant/note.txt", "mine");
  folder_.write("set/bee/0.png", "no picture");
  refused({folder_ / "set", "--out", folder_ / "set/ant/note.txt"}, ErrorKind::kUsage,
          "would be lost");
  EXPECT_EQ(data_command(posix_env(), Texts{"shwo"}).error().kind, ErrorKind::kUsage);
}

TEST(Augmentation, WordsAndNames) {
  const auto round = [](const std::string& words) {
    const auto steps = parse_augmentation(words);
    return steps.ok() ? described(*steps) : "refused";
  };
  EXPECT_EQ(round("none"), "");
  EXPECT_EQ(round("crop=32:4,flip"), "RandomCrop(32, padding=4), RandomHorizontalFlip(0.5)");
  EXPECT_EQ(round("autoaugment=svhn,resize=244x200"), "AutoAugment(SVHN), Resize((244, 200))");
  EXPECT_EQ(round("resize=256,center-crop=224"), "Resize(256), CenterCrop(224)");
  EXPECT_EQ(round("resized-crop=224"), "RandomResizedCrop(224)");
  for (const char* wrong : {"", "crop", "crop=", "crop=a", "crop=32:", "flip=", "flip,", "resize=x",
                            "resize=4x", "autoaugment=", "none,flip"})
    EXPECT_EQ(round(wrong), "refused") << wrong;
}

TEST(Sheet, SamplesAreSpreadEvenly) {
  using Indices = std::vector<std::size_t>;
  EXPECT_EQ(spread(10, 4), (Indices{0, 2, 5, 7}));
  EXPECT_EQ(spread(3, 4), (Indices{0, 1, 2}));
  EXPECT_EQ(spread(0, 4), Indices{});
}

}  // namespace
}  // namespace lockstep::inspect

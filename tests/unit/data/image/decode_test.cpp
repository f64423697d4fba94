#include "data/image/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "unit/data/image/files.h"

namespace lockstep::data::image {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using File = std::vector<std::uint8_t>;

File golden(const std::string& name) { return bytes_of(golden_folder() + "/" + name); }

std::string complaint(Bytes file, const DecodeLimits& limits = {}) {
  Image out;
  const Status status = decode(file, "some/file", out, limits);
  if (status.ok()) return "accepted";
  EXPECT_EQ(status.error().kind, ErrorKind::kBadData);
  EXPECT_THAT(status.error().message, HasSubstr("some/file: "));
  return status.error().message;
}

// Whether `region` of the picture is what decode_region() gives.
bool is_cut_of(const Image& whole, const Region& region, const PixelView& part) {
  if (part.width != region.width || part.height != region.height || !part.interleaved())
    return false;
  const std::size_t row_bytes = static_cast<std::size_t>(region.width) * kChannels;
  for (int y = 0; y < region.height; ++y)
    if (std::memcmp(part.at(0, y), whole.row(region.top + y) + region.left * kChannels,
                    row_bytes) != 0)
      return false;
  return true;
}

TEST(Decode, APartIsEqualToTheCutForEveryRegionOfASmallPicture) {
  Image whole;
  Image part;
  for (const std::string& name : golden_files("jpeg-", "-17x9.jpg")) {
    const File file = golden(name);
    ASSERT_TRUE(decode(file, name, whole).ok());
    for (int left = 0; left < whole.width(); ++left)
      for (int top = 0; top < whole.height(); ++top)
        for (int right = left + 1; right <= whole.width(); ++right)
          for (int bottom = top + 1; bottom <= whole.height(); ++bottom) {
            const Region region{left, top, right - left, bottom - top};
            const auto view = decode_region(
                file, name, [&](int, int) { return region; }, part);
            ASSERT_TRUE(view.ok());
            ASSERT_TRUE(is_cut_of(whole, region, *view)) << name << " " << left << " " << top;
          }
  }
}

TEST(Decode, APartIsEqualToTheCutForManyRegionsOfEachKind) {
  std::mt19937 draw(3);
  Image whole;
  Image part;
  for (const char* start : {"jpeg-", "png-"})
    for (const std::string& name : golden_files(start)) {
      const File file = golden(name);
      ASSERT_TRUE(decode(file, name, whole).ok());
      for (int i = 0; i < 200; ++i) {
        const auto below = [&](int n) {
          return static_cast<int>(draw() % static_cast<unsigned>(n));
        };
        Region region{below(whole.width()), below(whole.height()), 0, 0};
        region.width = 1 + below(whole.width() - region.left);
        region.height = 1 + below(whole.height() - region.top);
        const auto view = decode_region(
            file, name, [&](int, int) { return region; }, part);
        ASSERT_TRUE(view.ok());
        ASSERT_TRUE(is_cut_of(whole, region, *view)) << name;
      }
    }
}

// A cut file is an error whatever part is asked for. A file's end (a JPEG's marker, a PNG's last
// checksum and end chunk) may be missing where the picture is there; peer.py compares with Pillow.
TEST(Decode, EveryCutFileIsAnError) {
  Image part;
  for (const char* start : {"jpeg-", "png-"})
    for (const std::string& name : golden_files(start)) {
      const File file = golden(name);
      const std::size_t ending = name.starts_with("jpeg") ? 2 : 16;
      for (std::size_t bytes = 0; bytes + ending < file.size(); bytes += 1 + bytes / 200) {
        const Bytes cut = Bytes(file).first(bytes);
        EXPECT_NE(complaint(cut), "accepted") << name << " cut to " << bytes;
        EXPECT_FALSE(decode_region(
                         cut, name,
                         [](int, int) {
                           return Region{0, 0, 1, 1};
                         },
                         part)
                         .ok())
            << name << " cut to " << bytes;
      }
    }
}

// Damage gives a picture or an error, never anything worse (the sanitizers watch).
TEST(Decode, DamagedFilesEndInAPictureOrAnError) {
  std::mt19937 draw(5);
  int errors = 0;
  for (const char* start : {"jpeg-", "png-"})
    for (const std::string& name : golden_files(start)) {
      const File file = golden(name);
      for (int i = 0; i < 60; ++i) {
        File damaged = file;
        for (int hit = 0; hit < 1 + i % 4; ++hit)
          damaged[draw() % damaged.size()] ^= static_cast<std::uint8_t>(1U << draw() % 8);
        errors += complaint(damaged, {.max_pixels = 1 << 20}) != "accepted" ? 1 : 0;
      }
    }
  EXPECT_GT(errors, 100);
}

TEST(Decode, SaysWhatIsNotAPicture) {
  EXPECT_THAT(complaint({}), HasSubstr("neither JPEG nor PNG (0 bytes"));
  const std::string text = "GIF89a of something";
  const File file(text.begin(), text.end());
  EXPECT_THAT(complaint(file), HasSubstr("neither JPEG nor PNG (19 bytes"));
}

TEST(Decode, SaysWhatIsWrongAndWhatToDo) {
  File jpeg = golden("jpeg-grey-16x33.jpg");
  jpeg.resize(jpeg.size() / 2);
  EXPECT_THAT(complaint(jpeg), AllOf(HasSubstr("not a usable JPEG: the file ends too early"),
                                     HasSubstr("replace or remove the file")));
  File png = golden("png-2-8-0-33x18.png");
  png[png.size() / 2] ^= 0x10;
  EXPECT_THAT(complaint(png), HasSubstr("not a usable PNG: "));
}

// The frame header's height and width, set to 0x7F7F.
File with_huge_sides(const std::string& name) {
  File file = golden(name);
  const std::array<std::uint8_t, 4> frame = {0xFF, 0xC0, 0x00, 0x11};
  const auto at = std::search(file.begin(), file.end(), frame.begin(), frame.end()) + 5;
  std::fill(at, at + 4, std::uint8_t{0x7F});
  return file;
}

TEST(Decode, RefusesMorePixelsThanTheLimitBeforeItAsksForMemory) {
  EXPECT_THAT(complaint(with_huge_sides("jpeg-420-q75-p0-61x47.jpg")),
              HasSubstr("32639 x 32639 pixels, the limit is 178956970 in all"));
  EXPECT_THAT(complaint(golden("jpeg-420-q75-p0-61x47.jpg"), {.max_pixels = 61 * 47 - 1}),
              HasSubstr("61 x 47 pixels, the limit is 2866 in all"));
  EXPECT_THAT(complaint(golden("png-2-8-0-33x18.png"), {.max_pixels = 593}),
              HasSubstr("33 x 18 pixels, the limit is 593 in all"));
}

TEST(Decode, RefusesAPartThatIsNotInThePicture) {
  Image part;
  for (const char* name : {"jpeg-exif-17x9.jpg", "png-2-8-0-33x18.png"})
    for (const Region region : {Region{0, 0, 0, 5}, Region{-1, 0, 5, 5}, Region{0, 0, 5, 19},
                                Region{30, 2, 4, 4}, Region{3, 3, 1 << 30, 1 << 30}}) {
      const auto status = decode_region(
          golden(name), name, [&](int, int) { return region; }, part);
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().kind, ErrorKind::kUsage);
      EXPECT_THAT(status.error().message, HasSubstr("was asked for, the picture has"));
    }
}

TEST(Decode, RefusesMoreScansThanTheLimit) {
  const File file = golden("jpeg-422-q75-p1-61x47.jpg");
  EXPECT_THAT(complaint(file, {.max_scans = 2}), HasSubstr("more than 2 scans"));
  EXPECT_EQ(complaint(file, {.max_scans = 10}), "accepted");
}

}  // namespace
}  // namespace lockstep::data::image

#include "data/idx.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "data/gzip.h"
#include "support/temp_folder.h"
#include "unit/data/idx_bytes.h"

namespace lockstep::data {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kGood = idx_bytes(0x08, {2, 3}, "abcdef");

// The message of the kBadData error that `content` gives.
std::string complaint(const std::string& content, std::uint64_t limit = kMaxIdxBytes) {
  const auto result = parse_idx(content, "some/file", limit);
  if (result.ok()) return "accepted";
  EXPECT_EQ(result.error().kind, ErrorKind::kBadData);
  EXPECT_THAT(result.error().message, HasSubstr("'some/file'"));
  return result.error().message;
}

TEST(Idx, ReadsPlainAndGzipAlike) {
  for (const std::string& content :
       {kGood, gzip(kGood), gzip(kGood.substr(0, 9)) + gzip(kGood.substr(9)),
        gzip(kGood) + std::string(512, '\0')}) {
    const auto array = parse_idx(content, "x");
    ASSERT_TRUE(array.ok()) << array.error().message;
    EXPECT_THAT(array->header.sizes, ElementsAre(2, 3));
    EXPECT_THAT(array->values(), ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
  }
}

TEST(Idx, ReadsEveryTypeWithItsElementSize) {
  const std::vector<std::pair<std::uint8_t, std::size_t>> types = {{0x08, 1}, {0x09, 1}, {0x0B, 2},
                                                                   {0x0C, 4}, {0x0D, 4}, {0x0E, 8}};
  for (const auto& [type, bytes] : types) {
    EXPECT_TRUE(parse_idx(idx_bytes(type, {3}, std::string(3 * bytes, 'v')), "x").ok())
        << int{type};
    EXPECT_FALSE(parse_idx(idx_bytes(type, {3}, std::string(3 * bytes + 1, 'v')), "x").ok())
        << int{type};
  }
}

TEST(Idx, EmptySizesAreALegalFile) {
  EXPECT_TRUE(parse_idx(idx_bytes(0x08, {0, 28, 28}, ""), "x").ok());
}

TEST(Idx, CutAtEveryByteIsNamed) {
  for (std::size_t n = 0; n < kGood.size(); ++n)
    EXPECT_THAT(complaint(kGood.substr(0, n)), HasSubstr(std::to_string(n) + " bytes")) << n;
  const std::string packed = gzip(kGood);
  for (std::size_t n = 2; n < packed.size(); ++n)
    EXPECT_THAT(complaint(packed.substr(0, n)), HasSubstr("again")) << n;
}

TEST(Idx, TooLongIsNamed) {
  EXPECT_THAT(complaint(kGood + "x"),
              AllOf(HasSubstr("19 bytes"), HasSubstr("asks for 18"), HasSubstr("too long")));
  EXPECT_THAT(complaint(gzip(kGood + "x")), HasSubstr("more than the 18 bytes"));
  EXPECT_THAT(complaint(gzip(kGood) + "tail"), HasSubstr("4 bytes follow"));
}

TEST(Idx, WrongMagicIsShown) {
  EXPECT_THAT(complaint("PK\x03\x04 something"), HasSubstr("starts with 50 4b 03 04"));
  EXPECT_THAT(complaint(idx_bytes(0x07, {1}, "a")), HasSubstr("00 00 07 01"));
  EXPECT_THAT(complaint(idx_bytes(0x08, {}, "a")), HasSubstr("00 00 08 00"));
  EXPECT_THAT(complaint(idx_bytes(0x08, std::vector<std::uint32_t>(9, 1), "a")),
              HasSubstr("00 00 08 09"));
  EXPECT_THAT(complaint("<html>not found</html>"), HasSubstr("not an IDX file"));
}

TEST(Idx, SizesThatOverflowOrPassTheLimitAllocateNothing) {
  const std::uint32_t huge = 0xFFFFFFFF;
  EXPECT_THAT(complaint(idx_bytes(0x08, {huge, huge, huge}, "")), HasSubstr("more than 2^64"));
  EXPECT_THAT(complaint(idx_bytes(0x0E, {huge, huge}, "")), HasSubstr("more than 2^64"));
  EXPECT_THAT(complaint(idx_bytes(0x08, {huge, 2}, "")), HasSubstr("limit 4294967296"));
  EXPECT_THAT(complaint(gzip(idx_bytes(0x08, {huge, 2}, ""))), HasSubstr("limit 4294967296"));
  EXPECT_THAT(complaint(kGood, 17), HasSubstr("18 bytes, limit 17"));
  // Announces 1 GB, holds nothing: refused by what so small a file can unpack to.
  EXPECT_THAT(complaint(gzip(idx_bytes(0x08, {1 << 30}, ""))), HasSubstr("cut short"));
}

TEST(Idx, GzipBombStopsAtTheAnnouncedSize) {
  const std::string bomb = gzip(idx_bytes(0x08, {4}, std::string(std::size_t{64} << 20, '\0')));
  EXPECT_THAT(complaint(bomb), HasSubstr("more than the 12 bytes"));
}

TEST(Idx, EveryFlippedBitOfAGzipFileIsFoundOrHarmless) {
  const std::string packed = gzip(kGood);
  int found = 0;
  for (std::size_t bit = 0; bit < packed.size() * 8; ++bit) {
    std::string damaged = packed;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto array = parse_idx(damaged, "x");
    found += !array.ok();
    // Bits that are accepted (time stamp, operating system) leave the values alone.
    if (array.ok()) {
      EXPECT_EQ(array->file, kGood) << bit;
    }
  }
  EXPECT_GT(found, 100);
}

TEST(Idx, MissingFileAndFolderInPlaceOfFile) {
  const test::TempFolder folder;
  const auto missing = read_idx(posix_env(), folder / "none");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().kind, ErrorKind::kBadData);
  EXPECT_THAT(missing.error().message, HasSubstr("none"));
  const auto directory = read_idx(posix_env(), folder.path());
  ASSERT_FALSE(directory.ok());
  EXPECT_THAT(directory.error().message, HasSubstr("not a regular file"));
}

TEST(Gzip, LimitIsExact) {
  const std::string packed = gzip("0123456789");
  EXPECT_TRUE(gunzip(packed, "x", 10).ok());
  EXPECT_FALSE(gunzip(packed, "x", 9).ok());
  EXPECT_EQ(*gunzip_start(packed, "x", 4), "0123");
  EXPECT_EQ(*gunzip_start(packed, "x", 40), "0123456789");
}

}  // namespace
}  // namespace lockstep::data

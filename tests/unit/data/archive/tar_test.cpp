#include "data/archive/tar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "unit/data/archive/tars.h"

namespace lockstep::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Listing final : TarSink {
  std::vector<std::string> entries;
  Status folder(const std::string& path) override {
    entries.push_back(path + "/");
    return {};
  }
  Status file(const std::string& path, std::uint64_t size) override {
    entries.push_back(path + "=" + std::to_string(size) + ":");
    return {};
  }
  Status link(const std::string& path, const std::string& target) override {
    entries.push_back(path + "->" + target);
    return {};
  }
  Status content(std::span<const std::byte> piece) override {
    entries.back().append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return {};
  }
};

// In small pieces, as a slow file.
Source of(const std::string& text) {
  return [text, at = std::size_t{0}](std::span<std::byte> out) mutable -> Result<std::size_t> {
    const std::size_t bytes = std::min(out.size(), text.size() - at);
    std::memcpy(out.data(), text.data() + at, bytes);
    at += bytes;
    return bytes;
  };
}

std::string error_of(const Source& source, const TarLimits& limits = {}) {
  Listing sink;
  const Status status = read_tar(source, limits, sink);
  if (status.ok()) return "none";
  EXPECT_EQ(status.error().kind, ErrorKind::kBadData);
  return status.error().message;
}

TEST(Tar, FoldersAndFilesInTheirOrder) {
  const std::string text = Tar()
                               .add("./", "", '5')
                               .add("./Train/", "", '5')
                               .add("Train//a/1.jpg", "one")
                               .add("b.png", std::string(600, 'x'), '0', "some/where")
                               .add("old/", "")
                               .add("empty")
                               .end();
  for (const Source& source :
       {of(text), gunzip_source(of(gzip(text))),
        gunzip_source(of(gzip(text.substr(0, 700)) + gzip(text.substr(700))))}) {
    Listing sink;
    const Status status = read_tar(source, {}, sink);
    ASSERT_TRUE(status.ok()) << status.error().message;
    EXPECT_THAT(sink.entries,
                ElementsAre("Train/", "Train/a/1.jpg=3:one",
                            "some/where/b.png=600:" + std::string(600, 'x'), "old/", "empty=0:"));
  }
}

TEST(Tar, NamesAndSizesThatDoNotFitIntoAHeader) {
  const std::string name = std::string(150, 'n') + "/" + std::string(150, 'm');
  std::string base256(12, '\0');
  base256[0] = '\x80';
  base256[11] = 2;
  const std::string text = Tar()
                               .add("././@LongLink", name + '\0', 'L')
                               .add(name.substr(0, 100), "gnu")
                               .pax("path", name)
                               .add("short", "pax")
                               .pax("size", "2")
                               .header("sized", Tar::octal(0))
                               .open_end() +
                           "ok" + std::string(510, '\0') +
                           Tar().header("large", base256).open_end() + "ok" +
                           std::string(510, '\0') + Tar().add("plain", "x").end();
  Listing sink;
  const Status status = read_tar(of(text), {}, sink);
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_THAT(sink.entries, ElementsAre(name + "=3:gnu", name + "=3:pax", "sized=2:ok",
                                        "large=2:ok", "plain=1:x"));
}

TEST(Tar, HardLinksAreOtherNames) {
  const std::string name(150, 'n');
  const std::string text = Tar()
                               .add("./a/1.jpg", "one")
                               .link("./a/2.jpg", "./a/1.jpg")
                               .pax("path", name)
                               .add("cut", "long")
                               .add("K", name + '\0', 'K')
                               .link("gnu", name.substr(0, 100))
                               .pax("linkpath", name)
                               .link("pax", "cut")
                               .end();
  Listing sink;
  const Status status = read_tar(of(text), {}, sink);
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_THAT(sink.entries, ElementsAre("a/1.jpg=3:one", "a/2.jpg->a/1.jpg", name + "=4:long",
                                        "gnu->" + name, "pax->" + name));
}

// tar -V and tar -g.
TEST(Tar, LabelsAndListsOfFoldersArePassedOver) {
  const std::string text = Tar()
                               .add("/data of 2026", "", 'V')
                               .add("Train/", "Y1.jpg" + std::string(700, '\0'), 'D')
                               .add("./", "DTrain", 'D')
                               .add("Train/1.jpg", "one")
                               .end();
  Listing sink;
  const Status status = read_tar(of(text), {}, sink);
  ASSERT_TRUE(status.ok()) << status.error().message;
  EXPECT_THAT(sink.entries, ElementsAre("Train/", "Train/1.jpg=3:one"));
  EXPECT_THAT(error_of(of(Tar().add("../out", "x", 'D').end())), HasSubstr("climbs out"));
  EXPECT_THAT(error_of(of(Tar().add("a", "", '6').end())), HasSubstr("(a pipe)"));
  EXPECT_THAT(error_of(of(Tar().add("a", "", 'Z').end())), HasSubstr("(type Z)"));
}

TEST(Tar, ZerosBehindTheGzipAreNoDamage) {
  const std::string packed = gzip(Tar().add("a", "one").end());
  for (const std::size_t zeros : {1UL, 511UL, 200000UL}) {
    Listing sink;
    const Status status = read_tar(gunzip_source(of(packed + std::string(zeros, '\0'))), {}, sink);
    EXPECT_TRUE(status.ok()) << status.error().message;
    EXPECT_THAT(sink.entries, ElementsAre("a=3:one"));
  }
  EXPECT_THAT(error_of(gunzip_source(of(packed + std::string(9, '\0') + "x"))),
              HasSubstr("gzip: "));
}

// "ab" at 3 and "cd" at 8 of 12 bytes, then a file to see that the end was found.
const std::string kHoles =
    std::string(3, '\0') + "ab" + std::string(3, '\0') + "cd" + std::string(2, '\0');

std::string block_of(std::string text) {
  text.resize((text.size() + 511) / 512 * 512);
  return text;
}

void expect_holes(const std::string& text, const std::string& name) {
  Listing sink;
  const Status status = read_tar(of(text), {}, sink);
  ASSERT_TRUE(status.ok()) << name << ": " << status.error().message;
  EXPECT_THAT(sink.entries, ElementsAre(name + "=12:" + kHoles, "next=1:x")) << name;
}

TEST(Tar, SparseFilesOfAllFormats) {
  using Parts = std::vector<std::pair<std::size_t, std::size_t>>;
  const Parts parts{{3, 2}, {8, 2}, {12, 0}};
  expect_holes(Tar().gnu_sparse("gnu", 12, parts, "abcd").add("next", "x").end(), "gnu");
  Parts many;  // more than a header has room for, and than its first extension
  for (std::size_t i = 0; i < 30; ++i) many.emplace_back(3, 0);
  many.insert(many.end(), parts.begin(), parts.end());
  expect_holes(Tar().gnu_sparse("more", 12, many, "abcd").add("next", "x").end(), "more");
  expect_holes(Tar()
                   .records({{"GNU.sparse.size", "12"},
                             {"GNU.sparse.numblocks", "2"},
                             {"GNU.sparse.offset", "3"},
                             {"GNU.sparse.numbytes", "2"},
                             {"GNU.sparse.offset", "8"},
                             {"GNU.sparse.numbytes", "2"}})
                   .add("0.0", "abcd")
                   .add("next", "x")
                   .end(),
               "0.0");
  expect_holes(Tar()
                   .records({{"GNU.sparse.size", "12"},
                             {"GNU.sparse.numblocks", "2"},
                             {"GNU.sparse.name", "0.1"},
                             {"GNU.sparse.map", "3,2,8,2"}})
                   .add("GNUSparseFile.1/0.1", "abcd")
                   .add("next", "x")
                   .end(),
               "0.1");
  expect_holes(Tar()
                   .records({{"GNU.sparse.major", "1"},
                             {"GNU.sparse.minor", "0"},
                             {"GNU.sparse.name", "1.0"},
                             {"GNU.sparse.realsize", "12"}})
                   .add("GNUSparseFile.1/1.0", block_of("2\n3\n2\n8\n2\n") + "abcd")
                   .add("next", "x")
                   .end(),
               "1.0");
  std::string long_map = "300\n";
  for (int i = 0; i < 298; ++i) long_map += "3\n0\n";
  expect_holes(Tar()
                   .records({{"GNU.sparse.major", "1"},
                             {"GNU.sparse.name", "map"},
                             {"GNU.sparse.realsize", "12"}})
                   .add("x", block_of(long_map + "3\n2\n8\n2\n") + "abcd")
                   .add("next", "x")
                   .end(),
               "map");
}

TEST(Tar, ASparseFilesMapMustFit) {
  const auto map = [](const std::string& text, const char* content = "abcd") {
    return error_of(of(Tar()
                           .records({{"GNU.sparse.size", "12"}, {"GNU.sparse.map", text}})
                           .add("x", content)
                           .end()));
  };
  EXPECT_EQ(map("3,2,8,2"), "none");
  EXPECT_EQ(map("", ""), "none") << "all of it is a hole";
  for (const char* wrong :
       {"3,2,4,2", "8,2,3,2", "3,2,11,2", "13,0,3,4", "3,2,8,18446744073709551615"})
    EXPECT_THAT(map(wrong), HasSubstr("does not fit")) << wrong;
  EXPECT_THAT(map("3,2"), HasSubstr("its parts have 2 bytes, and 4 are stored"));
  for (const char* wrong : {"3,2,8", "3,2,", "x", "-1,2"})
    EXPECT_THAT(map(wrong), HasSubstr("map")) << wrong;
  EXPECT_THAT(error_of(of(Tar().pax("GNU.sparse.map", "3,2").add("x", "ab").end())),
              HasSubstr("no size"));
  EXPECT_THAT(error_of(of(Tar().pax("GNU.sparse.numbytes", "3").add("x", "ab").end())),
              HasSubstr("damaged map"));
  EXPECT_THAT(error_of(of(Tar()
                              .records({{"GNU.sparse.major", "1"}, {"GNU.sparse.realsize", "9"}})
                              .add("x", "no map")
                              .end())),
              HasSubstr("its map is cut off"));
  EXPECT_THAT(error_of(of(Tar().records({{"GNU.sparse.size", "5000000000000"}}).add("x").end())),
              HasSubstr("holds more than"))
      << "holes count";
}

TEST(Tar, NothingLeadsOut) {
  for (const char* name : {"../x", "a/../../x", "a/..", ".."})
    EXPECT_THAT(error_of(of(Tar().add(name).end())), HasSubstr("climbs out of its folder")) << name;
  EXPECT_THAT(error_of(of(Tar().add("/etc/passwd").end())), HasSubstr("absolute path"));
  EXPECT_THAT(error_of(of(Tar().add("x", "", '0', "/etc").end())), HasSubstr("absolute path"));
  EXPECT_THAT(error_of(of(Tar().pax("path", "../x").add("x").end())), HasSubstr("climbs out"));
  EXPECT_THAT(error_of(of(Tar().pax("path", std::string("a\0b", 3)).add("x").end())),
              HasSubstr("zero byte"));
  EXPECT_THAT(error_of(of(Tar().add("L", "../x", 'L').add("x").end())), HasSubstr("climbs out"));
  EXPECT_THAT(error_of(of(Tar().add("x", "", '2').end())), HasSubstr("a symbolic link"));
  for (const char* target : {"", ".", "x", "./x"})
    EXPECT_THAT(error_of(of(Tar().link("x", target).end())), HasSubstr("a link to no file"));
  EXPECT_THAT(error_of(of(Tar().link("x", "/etc/passwd").end())), HasSubstr("absolute path"));
  EXPECT_THAT(error_of(of(Tar().link("x", "a/../../y").end())), HasSubstr("climbs out"));
  EXPECT_THAT(error_of(of(Tar().pax("linkpath", "../y").link("x", "a").end())),
              HasSubstr("climbs out"));
  EXPECT_THAT(error_of(of(Tar().pax("GNU.sparse.name", "../y").add("x").end())),
              HasSubstr("climbs out"));
  for (const char type : {'3', '4', '6', 'S', 'Z'})  // POSIX has no S
    EXPECT_THAT(error_of(of(Tar().add("x", "", type).end())), HasSubstr("neither a file")) << type;
}

TEST(Tar, WhatIsDamagedIsRefused) {
  const std::string text = Tar().add("a", std::string(1000, 'x')).end();
  for (const std::size_t bytes : {0UL, 100UL, 512UL, 1000UL, 1536UL})
    EXPECT_THAT(error_of(of(text.substr(0, bytes))), HasSubstr("cut off")) << bytes;
  std::string wrong = text;
  wrong[10] = 'y';
  EXPECT_THAT(error_of(of(wrong)), HasSubstr("a header's sum is wrong"));
  EXPECT_THAT(error_of(of(Tar().header("a", "9").end())), HasSubstr("no size"));
  EXPECT_THAT(error_of(of(Tar().header("a", std::string(12, '7')).end())), HasSubstr("cut off"));
  EXPECT_THAT(error_of(of(Tar().add("x", "9 path=a", 'x').add("x").end())), HasSubstr("pax"));
  EXPECT_THAT(error_of(of(Tar().add("x", "99999 path=a\n", 'x').end())), HasSubstr("pax"));
  EXPECT_THAT(error_of(of(Tar().pax("size", "-1").add("x").end())), HasSubstr("pax"));
  EXPECT_THAT(error_of(of(Tar().header("x", Tar::octal(2 << 20), 'x').end())), HasSubstr("limit"));

  const std::string packed = gzip(text);
  EXPECT_THAT(error_of(gunzip_source(of(packed.substr(0, packed.size() - 4)))),
              HasSubstr("cut off"));
  std::string sum = packed;
  sum[sum.size() - 6] = static_cast<char>(sum[sum.size() - 6] ^ 1);
  EXPECT_THAT(error_of(gunzip_source(of(sum))), HasSubstr("incorrect data check"));
  EXPECT_THAT(error_of(gunzip_source(of("no gzip"))), HasSubstr("gzip: "));
}

TEST(Tar, ThereAreLimits) {
  const Tar two = Tar().add("a", "xx").add("b/c/d", "xx");
  EXPECT_EQ(error_of(of(two.end()), {.bytes = 1028}), "none");
  EXPECT_THAT(error_of(of(two.end()), {.entries = 1}), HasSubstr("more than 1 entries"));
  EXPECT_THAT(error_of(of(two.end()), {.bytes = 3}), HasSubstr("more than 3 bytes"));
  EXPECT_THAT(error_of(of(two.end()), {.name_bytes = 0}), HasSubstr("bytes in it, limit 0"));
  EXPECT_THAT(error_of(of(two.end()), {.path_bytes = 4}), HasSubstr("limit 4"));
  EXPECT_THAT(error_of(of(two.end()), {.depth = 2}), HasSubstr("more than 2 folders deep"));
  const std::string bomb = gzip(Tar().end() + std::string(1 << 20, '\0'));
  EXPECT_THAT(error_of(gunzip_source(of(bomb)), {.bytes = 1 << 19}), HasSubstr("more than"));
}

}  // namespace
}  // namespace lockstep::data

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

TEST(Tar, NothingLeadsOut) {
  for (const char* name : {"../x", "a/../../x", "a/..", ".."})
    EXPECT_THAT(error_of(of(Tar().add(name).end())), HasSubstr("climbs out of its folder")) << name;
  EXPECT_THAT(error_of(of(Tar().add("/etc/passwd").end())), HasSubstr("absolute path"));
  EXPECT_THAT(error_of(of(Tar().add("x", "", '0', "/etc").end())), HasSubstr("absolute path"));
  EXPECT_THAT(error_of(of(Tar().pax("path", "../x").add("x").end())), HasSubstr("climbs out"));
  EXPECT_THAT(error_of(of(Tar().pax("path", std::string("a\0b", 3)).add("x").end())),
              HasSubstr("zero byte"));
  EXPECT_THAT(error_of(of(Tar().add("L", "../x", 'L').add("x").end())), HasSubstr("climbs out"));
  for (const char type : {'1', '2'})
    EXPECT_THAT(error_of(of(Tar().add("x", "", type).end())), HasSubstr("a link")) << type;
  for (const char type : {'3', '4', '6', 'S', 'Z'})
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

// Files of our own making; peer.py compares with Python's.
#include "data/vision/cifar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace lockstep::data {
namespace {

using namespace std::string_literals;
using testing::ElementsAre;
using testing::HasSubstr;

std::string record(char label, char pixel) {
  return std::string(1, label) + std::string(kCifarBytes, pixel);
}

std::string ten_names() {
  std::string names;
  for (char c = 'a'; c < 'a' + 10; ++c) names += std::string(1, c) + "\n";
  return names + "\n";
}

void write_binary(const test::TempFolder& root) {
  for (int i = 1; i <= 5; ++i)
    root.write("cifar-10-batches-bin/data_batch_" + std::to_string(i) + ".bin",
               record(static_cast<char>(i), 'p') + record(0, 'q'));
  root.write("cifar-10-batches-bin/test_batch.bin", record(9, 't'));
  root.write("cifar-10-batches-bin/batches.meta.txt", ten_names());
}

std::string message_of(const Status& status) { return status.ok() ? "" : status.error().message; }

TEST(Cifar, BinaryFilesInTheirOrder) {
  const test::TempFolder root;
  write_binary(root);
  for (const std::string& folder : {root.path(), root / "cifar-10-batches-bin"}) {
    const auto train = read_cifar(posix_env(), folder, CifarKind::k10, true);
    ASSERT_TRUE(train.ok()) << train.error().message;
    EXPECT_THAT(train->labels, ElementsAre(1, 0, 2, 0, 3, 0, 4, 0, 5, 0));
    EXPECT_EQ(train->pixels.size(), 10 * kCifarBytes);
    EXPECT_EQ(*train->picture(2), 'p');
    EXPECT_EQ(train->picture(3)[kCifarBytes - 1], 'q');
    EXPECT_EQ(train->classes[9], "j");
  }
  const auto test = read_cifar(posix_env(), root.path(), CifarKind::k10, false);
  ASSERT_TRUE(test.ok()) << test.error().message;
  EXPECT_THAT(test->labels, ElementsAre(9));
}

TEST(Cifar, OfAHundredTheFineLabelCounts) {
  Cifar out;
  const std::string file = "\x13\x63" + std::string(kCifarBytes, 'p');
  ASSERT_TRUE(parse_cifar_binary(file, "train.bin", CifarKind::k100, out).ok());
  EXPECT_THAT(out.labels, ElementsAre(99));
}

// Protocol 2 by hand: {"labels": LABELS, "data": uint8 [count, 3072]}.
std::string text(const std::string& words) {
  std::string size(4, '\0');
  size[0] = static_cast<char>(words.size());
  return "X" + size + words;
}
std::string array(const std::string& dtype, const std::string& order, const std::string& shape,
                  const std::string& bytes) {
  std::string size(4, '\0');
  size[0] = static_cast<char>(bytes.size() & 255);
  size[1] = static_cast<char>(bytes.size() >> 8);
  return "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85U\1b\x87R("s + "K\1" +
         shape + "cnumpy\ndtype\n" + text(dtype) + "K\0K\1\x87R(K\3"s + text(order) +
         "NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89"s + "T" + size + bytes + "tb";
}
std::string batch(const char* key, const std::string& labels, std::size_t count) {
  return "\x80\2}(" + text(key) + labels + text("data") +
         array("u1", "|", "K" + std::string(1, static_cast<char>(count)) + "M\0\x0c\x86"s,
               std::string(count * kCifarBytes, 'p')) +
         "u.";
}
Status parse(const std::string& file, CifarKind kind, Cifar& out) {
  return parse_cifar_pickle(std::as_bytes(std::span(file)), "x", kind, out);
}

TEST(Cifar, LabelsAreAnySequenceOfWholeNumbers) {
  const std::string ten = "labels";
  for (const std::string& labels :
       {"](K\3K\te"s, "(K\3K\tt"s, "K\3K\t\x86"s, array("u1", "|", "K\2\x85", "\3\t"),
        array("i1", "|", "K\2\x85", "\3\t"), array("i2", "<", "K\2\x85", "\3\0\t\0"s),
        array("u8", "<", "K\2\x85", "\3\0\0\0\0\0\0\0\t\0\0\0\0\0\0\0"s),
        array("i4", ">", "K\2\x85", "\0\0\0\3\0\0\0\t"s),
        array("i4", "<", "K\2K\1\x86", "\3\0\0\0\t\0\0\0"s)}) {
    Cifar out;
    const Status parsed = parse(batch("labels", labels, 2), CifarKind::k10, out);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_THAT(out.labels, ElementsAre(3, 9));
    EXPECT_EQ(out.pixels.size(), 2 * kCifarBytes);
  }
  Cifar out;
  ASSERT_TRUE(
      parse(batch("fine_labels", array("u1", "|", "K\1\x85", "\x63"), 1), CifarKind::k100, out)
          .ok());
  EXPECT_THAT(out.labels, ElementsAre(99));
}

// As Python writes them by protocol 2, and later ones.
TEST(Cifar, LabelsAreAnyOtherSequenceOfPythonsToo) {
  const std::string type = "carray\narray\n";
  for (const std::string& labels :
       {"c__builtin__\nxrange\nK\3K\nK\6\x87R"s, "cbuiltins\nrange\nK\3K\nK\6\x87R"s,
        "ccollections\ndeque\n)R(K\3K\te"s, type + "X\1\0\0\0i](K\3K\te\x86R"s,
        "carray\n_array_reconstructor\n("s + type + "X\1\0\0\0iK\10C\10\3\0\0\0\t\0\0\0tR"s,
        "carray\n_array_reconstructor\n("s + type + "X\1\0\0\0hK\5C\4\0\3\0\ttR"s}) {
    Cifar out;
    const Status parsed = parse(batch("labels", labels, 2), CifarKind::k10, out);
    ASSERT_TRUE(parsed.ok()) << parsed.error().message;
    EXPECT_THAT(out.labels, ElementsAre(3, 9));
  }
  Cifar out;
  for (const std::string& wrong :
       {"cbuiltins\nrange\nK\0J\xff\xff\xff\x7fK\1\x87R"s, "cbuiltins\nrange\nK\0K\1K\0\x87R"s,
        "carray\n_array_reconstructor\n("s + type + "X\1\0\0\0dK\20C\0tR"s})
    EXPECT_FALSE(parse(batch("labels", wrong, 1), CifarKind::k10, out).ok());
}

TEST(Cifar, LabelsThatAreNoneAreNamedAndNoDownloadIsAdvised) {
  const auto error = [](const std::string& labels) {
    Cifar out;
    const std::string message = message_of(parse(batch("labels", labels, 1), CifarKind::k10, out));
    EXPECT_EQ(message.find("download"), std::string::npos) << message;
    return message;
  };
  EXPECT_THAT(error(array("f4", "<", "K\1\x85", "\0\0\x80\x3f"s)),
              HasSubstr("'labels' is an array of f4 [1]: labels are whole numbers"));
  EXPECT_THAT(error(array("i1", "|", "K\2K\2\x86", "abcd")), HasSubstr("i1 [2, 2]"));
  EXPECT_THAT(error("](K\3Ne"), HasSubstr("with None at 1"));
  EXPECT_THAT(error("N"), HasSubstr("'labels' is None"));
  EXPECT_THAT(error(array("i1", "|", "K\1\x85", "\xff")), HasSubstr("picture 0 has label -1"));
  EXPECT_THAT(error(array("i2", "<", "K\1\x85", "\0\1"s)), HasSubstr("has label 256, 0 to 9"));
  Cifar out;
  EXPECT_THAT(message_of(parse(batch("other", "N", 1), CifarKind::k10, out)),
              HasSubstr("there is no 'labels'"));
}

TEST(Cifar, WhatIsWrongIsNamed) {
  const test::TempFolder root;
  EXPECT_THAT(read_cifar(posix_env(), root.path(), CifarKind::k10, true).error().message,
              HasSubstr("cifar-10-batches-py"));
  Cifar out;
  EXPECT_THAT(message_of(parse_cifar_binary(record(10, 'p'), "x.bin", CifarKind::k10, out)),
              HasSubstr("'x.bin': picture 0 has label 10, the limit is 9"));
  EXPECT_THAT(message_of(parse_cifar_binary(record(1, 'p') + "x", "x.bin", CifarKind::k10, out)),
              HasSubstr("3074 bytes, must be a multiple of 3073"));
  EXPECT_THAT(message_of(parse_cifar_binary("", "x.bin", CifarKind::k10, out)),
              HasSubstr("0 bytes"));
  EXPECT_THAT(message_of(parse_cifar_pickle({}, "x", CifarKind::k10, out)), HasSubstr("'x'"));
  write_binary(root);
  root.write("cifar-10-batches-bin/batches.meta.txt", "a\nb\n");
  EXPECT_THAT(read_cifar(posix_env(), root.path(), CifarKind::k10, true).error().message,
              HasSubstr("names of 10 classes expected, found 2"));
}

}  // namespace
}  // namespace lockstep::data

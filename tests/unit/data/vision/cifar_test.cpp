// Files of our own making; peer.py compares with Python's.
#include "data/vision/cifar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/temp_folder.h"

namespace lockstep::data {
namespace {

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

#include "data/vision/look_alike.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::data {
namespace {

using testing::HasSubstr;

TEST(LookAlike, NamesThatArePlainlyTwoHaveNoOnlyDifference) {
  for (const auto& [one, other] : {std::pair{"ant", "ant"},
                                   {"ant", "bee"},
                                   {"ant", "ants"},
                                   {"caf\u00e9", "caff"},
                                   {"\u00e9t\u00e9", "ete"},
                                   {"\xFF", "\xFE"},
                                   {"\u4e2d", "\u56fd"},
                                   {"", "a"}}) {
    EXPECT_EQ(only_difference(one, other), "") << one << ' ' << other;
    EXPECT_EQ(only_difference(other, one), "") << one << ' ' << other;
  }
}

TEST(LookAlike, WhatOnlyBytesTellApartIsTold) {
  const auto expect = [](const std::string& one, const std::string& other, const char* words) {
    EXPECT_THAT(only_difference(one, other), HasSubstr(words)) << one << ' ' << other;
    EXPECT_THAT(only_difference(other, one), HasSubstr(words)) << one << ' ' << other;
  };
  expect("Cat", "cat", "in capitals");
  expect("cat", "cat ", "in spaces");
  expect("big cat", "bigcat", "in spaces");
  expect("big cat", "big\u00a0cat", "in spaces");
  expect("cat\r", "cat", "in spaces");
  expect("caf\u00e9", "cafe\u0301", "Unicode");
  expect("\u1ec7", "e\u0323\u0302", "Unicode");  // two marks,
  expect("\u1ec7", "\u1eb9\u0302", "Unicode");   // of which one may be composed
  expect("\ud55c\uae00", "\u1112\u1161\u11ab\u1100\u1173\u11af", "Unicode");
  expect("\u304c", "\u304b\u3099", "Unicode");
  expect("caf\u00e9", "caf\xE9", "encoding");
}

TEST(LookAlike, BytesAreShown) {
  EXPECT_EQ(shown_bytes("caf\u00e9 1"), "caf\\xc3\\xa9 1");
  EXPECT_EQ(shown_bytes("\xE9\t"), "\\xe9\\x09");
}

}  // namespace
}  // namespace lockstep::data

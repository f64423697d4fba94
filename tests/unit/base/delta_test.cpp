// What two byte strings have in common.
#include "base/delta.h"

#include <gtest/gtest.h>

#include <random>

namespace lockstep {
namespace {

constexpr std::size_t kMost = std::size_t{1} << 20;

std::string bytes_of(std::mt19937& random, std::size_t size, int kinds) {
  std::string text(size, '\0');
  for (char& one : text) one = static_cast<char>(random() % static_cast<unsigned>(kinds));
  return text;
}

std::size_t size_of_delta(const std::string& from, const std::string& to) {
  const std::string delta = delta_of(from, to);
  const auto result = apply_delta(from, delta, kMost);
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(*result, to);
  return delta.size();
}

TEST(Delta, OfAnyTwoTheSecondComesBack) {
  std::mt19937 random(7);
  for (int i = 0; i < 3'000; ++i) {
    const int kinds = i % 3 == 0 ? 2 : 256;
    const std::string from = bytes_of(random, random() % 300, kinds);
    std::string to;
    while (random() % 6 != 0) {  // parts of it, in any order, and others
      const std::size_t at = random() % (from.size() + 1);
      to += random() % 2 == 0 ? from.substr(at, random() % 200)
                              : bytes_of(random, random() % 40, kinds);
    }
    size_of_delta(from, to);
  }
}

TEST(Delta, AFieldThatIsWrittenOverCostsSomeBytes) {
  std::mt19937 random(1);
  const std::string from = bytes_of(random, 100'000, 256);
  std::string to = from;
  EXPECT_LE(size_of_delta(from, to), 10U);
  to[50'000] ^= 1;
  EXPECT_LE(size_of_delta(from, to), 20U);
  for (std::size_t at = 0; at < to.size(); at += 100) to[at] ^= 2;
  EXPECT_LE(size_of_delta(from, to), 5'000U);
}

TEST(Delta, WhatIsTakenOutAndPutInCostsItself) {
  std::mt19937 random(1);
  const std::string from = bytes_of(random, 100'000, 256);
  EXPECT_LE(size_of_delta(from, std::string(from).erase(50'003, 10)), 50U);
  EXPECT_LE(size_of_delta(from, std::string(from).insert(50'003, "something else")), 60U);
  EXPECT_LE(size_of_delta(from, from.substr(60'000) + from.substr(0, 60'000)), 50U);
}

// Rows of zeros, as of a state of many hosts.
TEST(Delta, RowsThatAreAlikeAreFoundInPlace) {
  std::string from(80'000, '\0');
  std::string to = from;
  to[40'000] = 1;
  EXPECT_LE(size_of_delta(from, to), 20U);
  to.erase(20'000, 80);
  EXPECT_LE(size_of_delta(from, to), 40U);
}

TEST(Delta, WhatCannotBeIsRefused) {
  std::mt19937 random(3);
  const std::string from = bytes_of(random, 1'000, 256);
  const std::string to = from.substr(500) + "something" + from.substr(0, 500);
  const std::string delta = delta_of(from, to);
  EXPECT_FALSE(apply_delta(from, delta, to.size() - 1).ok()) << "too long";
  EXPECT_FALSE(apply_delta(from, delta + "x", kMost).ok());
  EXPECT_FALSE(apply_delta(from.substr(0, 900), delta, kMost).ok()) << "another one";
  for (std::size_t size = 0; size < delta.size(); ++size)
    EXPECT_FALSE(apply_delta(from, delta.substr(0, size), kMost).ok()) << size;
  for (int i = 0; i < 20'000; ++i) {
    std::string damaged = delta;
    damaged[random() % damaged.size()] = static_cast<char>(random());
    const auto result = apply_delta(from, damaged, kMost);
    EXPECT_TRUE(!result.ok() || result->size() <= kMost);
  }
  EXPECT_FALSE(apply_delta("", std::string(12, '\xff'), kMost).ok());
}

}  // namespace
}  // namespace lockstep

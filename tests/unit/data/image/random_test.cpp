#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

#include "data/image/sample_random.h"

namespace lockstep::data::image {
namespace {

const std::vector<std::uint32_t> kKeys = {0, 1, 5489, 0x80000000U, 0xFFFFFFFFU, 123456789};

// torch's generator is MT19937, as the standard library's; peer.py compares with torch itself.
TEST(SampleRandom, GivesTheBitsOfMersenneTwister) {
  for (const std::uint32_t key : kKeys) {
    SampleRandom random(key);
    std::mt19937 expected(key);
    for (int i = 0; i < 2000; ++i) ASSERT_EQ(random.bits(), expected()) << key << " draw " << i;
  }
}

TEST(SampleRandom, ManyAtOnceAreEqualToOneByOne) {
  std::vector<std::uint32_t> keys(77);
  for (std::size_t i = 0; i < keys.size(); ++i)
    keys[i] = static_cast<std::uint32_t>(i * 2654435761U);
  std::vector<SampleRandom> many(keys.size());
  SampleRandom::make(keys, many);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    SampleRandom one(keys[i]);
    for (int draw = 0; draw < 40; ++draw) ASSERT_EQ(many[i].bits(), one.bits());
  }
}

TEST(SampleRandom, UsedObjectsStartAgain) {
  std::vector<SampleRandom> randoms(1);
  const std::uint32_t first = 3;
  const std::uint32_t second = 4;
  SampleRandom::make({&first, 1}, randoms);
  for (int i = 0; i < 100; ++i) randoms[0].bits();
  SampleRandom::make({&second, 1}, randoms);
  std::mt19937 expected(second);
  for (int i = 0; i < 100; ++i) ASSERT_EQ(randoms[0].bits(), expected());
}

TEST(SampleRandom, UniformNumbersAreBelowOneAndInRange) {
  SampleRandom random(9);
  for (int i = 0; i < 1000; ++i) {
    const float unit = random.uniform();
    EXPECT_TRUE(unit >= 0 && unit < 1);
    const float ranged = random.uniform(0.25F, 0.5F);
    EXPECT_TRUE(ranged >= 0.25F && ranged <= 0.5F);
    EXPECT_LT(random.below(7), 7U);
  }
}

// Written down: a change of the key would change every run's augmentation.
TEST(SampleKey, IsXxh3OfSeedEpochAndSample) {
  EXPECT_EQ(sample_key(0, 0, 0), 3838282282U);
  EXPECT_EQ(sample_key(1, 2, 3), 1853794176U);
  EXPECT_EQ(sample_key(~0ULL, 1ULL << 40, 59999), 3582122689U);
}

TEST(SampleKey, TellsSeedEpochAndSampleApart) {
  std::set<std::uint32_t> keys;
  for (std::uint64_t seed = 0; seed < 10; ++seed)
    for (std::uint64_t epoch = 0; epoch < 10; ++epoch)
      for (std::uint64_t sample = 0; sample < 100; ++sample)
        keys.insert(sample_key(seed, epoch, sample));
  EXPECT_GE(keys.size(), 9998U);  // of 10,000: two in 32 bits may meet by chance
}

}  // namespace
}  // namespace lockstep::data::image

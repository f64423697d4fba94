// A loader of a set in which some samples cannot be decoded.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "base/log.h"
#include "data/left_out.h"
#include "data/pieces.h"
#include "lockstep/data.h"
#include "unit/data/share_plans.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Sample i is the number i, but for those that are damaged. `drawn`: a number from the default
// generator beside it, as of a data set that draws from there.
class Holey final : public Dataset {
 public:
  explicit Holey(std::int64_t size, std::set<std::int64_t> damaged, bool draws = false)
      : size_(size), damaged_(std::move(damaged)), draws_(draws) {}
  std::int64_t size() const override { return size_; }
  Result<Batch> get(std::span<const std::int64_t> ids, const Pass& pass) const override {
    ++calls;
    std::vector<std::int64_t> sound;
    for (const std::int64_t id : ids)
      if (!damaged_.contains(id)) sound.push_back(id);
    if (sound.empty()) return Batch{};
    const at::Tensor values = at::tensor(sound);
    const at::Tensor drawn = draws_ ? at::rand({values.size(0)}) : at::zeros({values.size(0)});
    return Batch{values * 1000 + static_cast<std::int64_t>(pass.epoch), drawn, sound};
  }
  std::string why_left_out(std::int64_t id) const override {
    return "number " + std::to_string(id) + " of " + std::to_string(size_) + ": a hole";
  }
  mutable std::atomic<int> calls = 0;

 private:
  const std::int64_t size_;
  const std::set<std::int64_t> damaged_;
  const bool draws_;
};

// The order with the next sound one in each hole.
std::vector<std::int64_t> without(const std::set<std::int64_t>& damaged, std::int64_t size,
                                  std::vector<std::int64_t> ids) {
  for (std::int64_t& id : ids)
    while (damaged.contains(id)) id = (id + 1) % size;
  return ids;
}

class QuietLoader : public testing::Test {
 protected:
  void SetUp() override { testing::internal::CaptureStderr(); }
  void TearDown() override { testing::internal::GetCapturedStderr(); }
};

// For any threads and order of asking, so any worker and heir: the set alone decides.
TEST_F(QuietLoader, ADamagedSampleIsTheNextSoundOne) {
  std::set<std::int64_t> all_but_one;
  for (std::int64_t i = 0; i < 103; ++i)
    if (i != 40) all_but_one.insert(i);
  for (const std::set<std::int64_t>& damaged :
       {std::set<std::int64_t>{7}, {0}, {102}, {101, 102, 0}, {5, 6, 7, 8, 50}, all_but_one}) {
    for (const Shuffle shuffle : {Shuffle::kSequential, Shuffle::kReshuffle}) {
      DataPlan plan = kPlan;
      plan.shuffle = shuffle;
      const auto order = *DataOrder::make(plan);
      std::mt19937 random(3);
      for (const int threads : {0, 1, 3}) {
        const auto data = std::make_shared<Holey>(103, damaged);
        auto shares = all_shares(plan, 2);
        std::shuffle(shares.begin(), shares.end(), random);
        const auto loader = *Loader::make(data, plan, {.prefetch_threads = threads});
        for (std::size_t i = 0; i < shares.size(); ++i) {
          loader->prefetch({shares.begin() + static_cast<std::ptrdiff_t>(i), shares.end()});
          const auto batch = loader->get(shares[i]);
          ASSERT_TRUE(batch.ok()) << batch.error().message;
          const auto asked = *order->ids(shares[i].at, shares[i].v);
          const auto expected = without(damaged, 103, asked);
          ASSERT_EQ(batch->ids, expected);
          ASSERT_EQ(batch->asked, asked == expected ? std::vector<std::int64_t>{} : asked);
          ASSERT_TRUE(at::equal(batch->inputs, at::tensor(expected) * 1000 +
                                                   static_cast<std::int64_t>(shares[i].at.epoch)));
        }
        // Each damaged sample is met once; then it is known.
        if (threads == 0) {
          EXPECT_LE(data->calls, static_cast<int>(2 * shares.size() + damaged.size() + 103));
        }
      }
    }
  }
}

// A worker that meets the hole now draws what one draws that has known it.
TEST_F(QuietLoader, WhatADataSetDrawsDoesNotDependOnWhatWasKnown) {
  DataPlan plan = kPlan;
  plan.shuffle = Shuffle::kSequential;  // the second share of the epoch has the hole, too
  plan.virtual_workers = 1;
  const auto data = std::make_shared<Holey>(103, std::set<std::int64_t>{10, 11, 12, 20}, true);
  const auto drawn = [&](Loader& loader, const ShareId& share) {
    at::manual_seed(5);
    const auto batch = loader.get(share);
    EXPECT_TRUE(batch.ok());
    return std::pair(batch->targets, default_generator_state());
  };
  const auto knows = *Loader::make(data, plan);
  const ShareId share{{0, 1}, 0};
  (void)drawn(*knows, share);
  const auto [then, state_then] = drawn(*knows, share);
  const auto [now, state_now] = drawn(**Loader::make(data, plan), share);
  EXPECT_TRUE(at::equal(now, then));
  EXPECT_EQ(state_now, state_then);
}

TEST(Loader, ADamagedSampleIsToldOnceWithWhatStandsInForIt) {
  DataPlan plan = kPlan;
  plan.dataset_size = 53;
  const auto data = std::make_shared<Holey>(53, std::set<std::int64_t>{7, 8, 52});
  testing::internal::CaptureStderr();
  for (const int threads : {0, 2}) {
    const auto loader = *Loader::make(data, plan, {.prefetch_threads = threads});
    for (const ShareId& share : all_shares(plan, 2)) ASSERT_TRUE(loader->get(share).ok());
  }
  const std::string told = testing::internal::GetCapturedStderr();
  for (const char* line : {"warning: left out: number 7 of 53: a hole; in training sample 9, the "
                           "next sound one, stands in for it\n",
                           "warning: left out: number 8 of 53: a hole; in training sample 9, the "
                           "next sound one, stands in for it\n",
                           "warning: left out: number 52 of 53: a hole; in training sample 0, the "
                           "next sound one, stands in for it\n"}) {
    EXPECT_THAT(told, HasSubstr(line));
    EXPECT_EQ(told.find(line), told.rfind(line)) << line;
  }
}

// Of one kind and of many workers; what else is to be said has room.
TEST(LeftOutLines, ARunNamesTwentyOfAKind) {
  const Holey set(1000, {});
  std::set<std::uint64_t> claimed;
  set_line_claims([&](std::uint64_t key) { return claimed.insert(key).second; });
  testing::internal::CaptureStderr();
  std::vector<std::unique_ptr<LeftOut>> workers;
  for (int i = 0; i < 50; ++i) workers.push_back(std::make_unique<LeftOut>("the trained ones"));
  for (std::int64_t id = 0; id < 1000; ++id)
    workers[static_cast<std::size_t>(id % 50)]->say_replaced(set, id, 999);
  const std::string told = testing::internal::GetCapturedStderr();
  set_line_claims({});
  const auto count = [&](const std::string& text) {
    int found = 0;
    for (std::size_t at = 0; (at = told.find(text, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  EXPECT_EQ(count("left out: number "), 20);
  EXPECT_EQ(count("more than 20 samples of the trained ones are left out"), 1);
  EXPECT_LE(claimed.size(), 100U) << "the board has room for 1,024";
}

TEST(LeftOutLines, OtherKindsHaveTheirOwn) {
  const Holey set(60, {});
  testing::internal::CaptureStderr();
  LeftOut trained("one kind"), evaluated("another kind");
  for (std::int64_t id = 0; id < 30; ++id) trained.say_replaced(set, id, 50);
  const std::vector<std::int64_t> asked{40, 41, 42}, given{41};
  evaluated.say_left_out(set, asked, given);
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("left out: number 19 of 60"));
  EXPECT_THAT(told, Not(HasSubstr("left out: number 20 of 60")));
  EXPECT_THAT(told, HasSubstr("left out: number 40 of 60: a hole\n"));
  EXPECT_THAT(told, Not(HasSubstr("left out: number 41 of 60")));
}

TEST_F(QuietLoader, ASetOfWhichNothingIsSoundIsBadData) {
  std::set<std::int64_t> all;
  for (std::int64_t i = 0; i < 103; ++i) all.insert(i);
  for (const int threads : {0, 2}) {
    const auto loader =
        *Loader::make(std::make_shared<Holey>(103, all), kPlan, {.prefetch_threads = threads});
    const auto batch = loader->get({{0, 0}, 0});
    ASSERT_FALSE(batch.ok());
    EXPECT_EQ(batch.error().kind, ErrorKind::kBadData);
    EXPECT_THAT(batch.error().message, HasSubstr("leaves out all of its 103 samples as damaged"));
  }
}

}  // namespace
}  // namespace lockstep::data

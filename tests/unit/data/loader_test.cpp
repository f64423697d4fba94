#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <latch>
#include <random>
#include <set>
#include <thread>

#include "base/deadline.h"
#include "data/pieces.h"
#include "lockstep/data.h"
#include "support/temp_folder.h"
#include "unit/data/idx_bytes.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;

// Sample i is the number i; a pause that differs from share to share upsets the order in which
// threads finish.
class SlowNumbers final : public Dataset {
 public:
  explicit SlowNumbers(std::int64_t size) : size_(size) {}
  std::int64_t size() const override { return size_; }
  Result<Batch> get(std::span<const std::int64_t> ids, const Pass& pass) const override {
    ++calls;
    if (ids[0] == poison) throw std::runtime_error("poisoned");
    std::this_thread::sleep_for(std::chrono::microseconds(ids[0] % 7 * 100));
    const at::Tensor values = at::tensor(std::vector<std::int64_t>(ids.begin(), ids.end()));
    return Batch{
        values * 1000 + static_cast<std::int64_t>(pass.epoch), values, {ids.begin(), ids.end()}};
  }
  mutable std::atomic<int> calls = 0;
  std::int64_t poison = -1;

 private:
  std::int64_t size_;
};

bool same(const Batch& a, const Batch& b) {
  return a.ids == b.ids && at::equal(a.inputs, b.inputs) && at::equal(a.targets, b.targets);
}

std::vector<ShareId> all_shares(const DataPlan& plan, std::uint64_t epochs) {
  std::vector<ShareId> shares;
  for (std::uint64_t epoch = 0; epoch < epochs; ++epoch)
    for (std::int64_t step = 0; step < plan.steps_per_epoch(); ++step)
      for (std::int64_t v = 0; v < plan.virtual_workers; ++v) shares.push_back({{epoch, step}, v});
  return shares;
}

const DataPlan kPlan{.dataset_size = 103, .virtual_workers = 3, .batch_size = 10, .seed = 1};

TEST(Loader, SameBatchesForAnyThreadsHintsAndOrder) {
  const auto data = std::make_shared<SlowNumbers>(103);
  const auto shares = all_shares(kPlan, 2);
  std::vector<Batch> expected;
  const auto plain = *Loader::make(data, kPlan);
  for (const ShareId& share : shares) expected.push_back(*plain->get(share));
  std::mt19937 random(1);
  for (const int threads : {0, 1, 2, 5}) {
    for (int round = 0; round < 4; ++round) {
      std::vector<std::size_t> asked(shares.size());
      for (std::size_t i = 0; i < asked.size(); ++i) asked[i] = i;
      if (round > 0) std::shuffle(asked.begin(), asked.end(), random);
      const auto loader = *Loader::make(data, kPlan, {.prefetch_threads = threads});
      for (std::size_t i = 0; i < asked.size(); ++i) {
        // Hints are right in round 0 and 1, and wrong in the others: too early, too late, doubled.
        std::vector<ShareId> next;
        for (std::size_t j = i + 1; j < std::min(i + 4, asked.size()); ++j)
          next.push_back(shares[round < 2 ? asked[j] : random() % shares.size()]);
        loader->prefetch(next);
        const auto batch = loader->get(shares[asked[i]]);
        ASSERT_TRUE(batch.ok()) << batch.error().message;
        ASSERT_TRUE(same(*batch, expected[asked[i]])) << threads << " threads, share " << asked[i];
      }
    }
  }
}

TEST(Loader, HintedBatchesAreComputedOnce) {
  const auto data = std::make_shared<SlowNumbers>(103);
  const auto shares = all_shares(kPlan, 1);
  const auto loader = *Loader::make(data, kPlan, {.prefetch_threads = 2});
  loader->prefetch(shares);
  for (const ShareId& share : shares) ASSERT_TRUE(loader->get(share).ok());
  EXPECT_EQ(data->calls, static_cast<int>(shares.size()));
}

TEST(Loader, PrefetchedBatchIsReadyBeforeItIsAskedFor) {
  const auto data = std::make_shared<SlowNumbers>(103);
  const auto loader = *Loader::make(data, kPlan, {.prefetch_threads = 1});
  loader->prefetch({{{0, 0}, 0}});
  for (int i = 0; i < 2000 && data->calls == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(data->calls, 1);
}

TEST(Loader, AShareCanBeAskedForAgain) {
  const auto loader =
      *Loader::make(std::make_shared<SlowNumbers>(103), kPlan, {.prefetch_threads = 1});
  const ShareId share{{0, 2}, 1};
  loader->prefetch({share});
  const Batch first = *loader->get(share);
  EXPECT_TRUE(same(first, *loader->get(share)));
}

TEST(Loader, ThreadsStartAtTheFirstHintAndEndWithTheLoader) {
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  const auto data = std::make_shared<SlowNumbers>(103);
  const auto before = threads();
  {
    const auto loader = *Loader::make(data, kPlan, {.prefetch_threads = 3});
    ASSERT_TRUE(loader->get({{0, 0}, 0}).ok());
    EXPECT_EQ(threads(), before);
    loader->prefetch(all_shares(kPlan, 1));
    EXPECT_EQ(threads(), before + 3);
  }
  for (int i = 0; i < 200 && threads() != before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(threads(), before);
}

TEST(Loader, ExceptionsOfADataSetBecomeErrorsThatNameTheShare) {
  const auto data = std::make_shared<SlowNumbers>(103);
  const ShareId share{{0, 1}, 2};
  data->poison = (*(*DataOrder::make(kPlan))->ids(share.at, share.v))[0];
  for (const int threads : {0, 1}) {
    const auto loader = *Loader::make(data, kPlan, {.prefetch_threads = threads});
    loader->prefetch({share});
    const auto batch = loader->get(share);
    ASSERT_FALSE(batch.ok());
    EXPECT_THAT(batch.error().message, HasSubstr("step 1, virtual worker 2: poisoned"));
    EXPECT_TRUE(loader->get({{0, 0}, 0}).ok());
  }
}

TEST(Loader, ABatchThatNeverComesIsTimedOut) {
  class Stuck final : public Dataset {
   public:
    std::int64_t size() const override { return 103; }
    Result<Batch> get(std::span<const std::int64_t>, const Pass&) const override {
      ++begun;
      std::this_thread::sleep_for(std::chrono::seconds(2));
      return Error{ErrorKind::kDisk, "nothing has come"};
    }
    mutable std::atomic<int> begun = 0;
  };
  const auto data = std::make_shared<Stuck>();
  const auto loader =
      *Loader::make(data, kPlan, {.prefetch_threads = 1, .patience = std::chrono::seconds(0)});
  loader->prefetch({{{0, 0}, 0}});
  while (data->begun == 0) std::this_thread::yield();
  const auto batch = loader->get({{0, 0}, 0});
  ASSERT_FALSE(batch.ok());
  EXPECT_EQ(batch.error().kind, ErrorKind::kTimedOut);
}

// Batches in pieces of one number each; `fill` is asked before each of them.
class NumbersInPieces final : public Dataset, public InPieces {
 public:
  using Fill = std::function<Status(std::size_t piece)>;
  explicit NumbersInPieces(Fill fill) : fill_(std::move(fill)) {}

  std::int64_t size() const override { return kPlan.dataset_size; }
  Result<Batch> get(std::span<const std::int64_t>, const Pass&) const override {
    return Error{ErrorKind::kInternal, "made whole"};
  }
  Result<std::unique_ptr<Pieces>> pieces(std::span<const std::int64_t> ids,
                                         const Pass&) const override {
    return std::unique_ptr<Pieces>(std::make_unique<Making>(fill_, ids));
  }

 private:
  class Making final : public Pieces {
   public:
    Making(const Fill& fill, std::span<const std::int64_t> ids)
        : fill_(fill), ids_(ids.begin(), ids.end()), numbers_(ids.size()) {}
    std::size_t count() const override { return ids_.size(); }
    Status fill(std::size_t piece) override {
      numbers_[piece] = ids_[piece];
      return fill_(piece);
    }
    Result<Batch> take() override { return Batch{at::tensor(numbers_), at::tensor(ids_), ids_}; }

   private:
    const Fill& fill_;
    const std::vector<std::int64_t> ids_;
    std::vector<std::int64_t> numbers_;
  };
  const Fill fill_;
};

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

TEST(Loader, IdsThatWereNotAskedForAreRefused) {
  class Other final : public Dataset {
   public:
    std::int64_t size() const override { return 103; }
    Result<Batch> get(std::span<const std::int64_t>, const Pass&) const override {
      return Batch{at::zeros({1}), at::zeros({1}), {1000}};
    }
  };
  const auto loader = *Loader::make(std::make_shared<Other>(), kPlan);
  const auto batch = loader->get({{0, 0}, 0});
  ASSERT_FALSE(batch.ok());
  EXPECT_EQ(batch.error().kind, ErrorKind::kUsage);
  EXPECT_THAT(batch.error().message, HasSubstr("asked for 10 samples and gave the ids of 1"));
}

const ShareId kFirst{{0, 0}, 0};
std::vector<std::int64_t> ids_of(const ShareId& share) {
  return *(*DataOrder::make(kPlan))->ids(share.at, share.v);
}
void expect_numbers(const Result<Batch>& batch, const ShareId& share) {
  ASSERT_TRUE(batch.ok()) << batch.error().message;
  EXPECT_EQ(batch->ids, ids_of(share));
  EXPECT_TRUE(at::equal(batch->inputs, at::tensor(batch->ids)));
}

// As many as are there at once, or too few come in a minute.
Status meet(std::latch& all) {
  all.count_down();
  for (const Deadline deadline = Deadline::in(std::chrono::minutes(1)); !all.try_wait();
       std::this_thread::yield())
    if (deadline.passed()) return Error{ErrorKind::kTimedOut, "nobody shares the batch"};
  return {};
}

TEST(Loader, ThreadsAndWhoWaitsShareABatch) {
  for (const bool hinted : {false, true}) {
    std::latch all(3);
    const auto data = std::make_shared<NumbersInPieces>(
        [&](std::size_t piece) { return piece < 3 ? meet(all) : Status(); });
    const auto loader = *Loader::make(data, kPlan, {.prefetch_threads = 2});
    loader->prefetch(hinted ? std::vector{kFirst} : std::vector<ShareId>{});
    expect_numbers(loader->get(kFirst), kFirst);
  }
}

TEST(Loader, BatchesInPiecesAreTheSameForAnyThreads) {
  const auto data = std::make_shared<NumbersInPieces>([](std::size_t) -> Status { return {}; });
  const auto shares = all_shares(kPlan, 3);
  for (const int threads : {0, 1, 2, 5}) {
    const auto loader = *Loader::make(data, kPlan, {.prefetch_threads = threads});
    for (std::size_t i = 0; i < shares.size(); ++i) {
      // Some hints are wrong, so that batches are given up half made.
      const std::size_t next = i % 3 == 0 ? shares.size() - 1 - i : i + 1;
      loader->prefetch(
          {shares.begin() + static_cast<std::ptrdiff_t>(next),
           shares.begin() + static_cast<std::ptrdiff_t>(std::min(next + 3, shares.size()))});
      expect_numbers(loader->get(shares[i]), shares[i]);
    }
  }
}

TEST(Loader, OfSeveralErrorsInABatchTheFirstInItsOrderIsTold) {
  for (const int threads : {0, 1, 3}) {
    const auto data = std::make_shared<NumbersInPieces>([](std::size_t piece) -> Status {
      if (piece == 4) throw std::runtime_error("poisoned");
      if (piece < 2) return {};
      return Error{ErrorKind::kDisk, "piece " + std::to_string(piece)};
    });
    const auto loader = *Loader::make(data, kPlan, {.prefetch_threads = threads});
    loader->prefetch({kFirst});
    EXPECT_EQ(loader->get(kFirst).error().message, "piece 2");
  }
}

TEST(Loader, APieceThatNeverComesIsTimedOut) {
  std::atomic<bool> begun = false;
  std::latch over(1);
  const auto data = std::make_shared<NumbersInPieces>([&](std::size_t piece) -> Status {
    if (piece > 0 || begun.exchange(true)) return {};
    begun.notify_all();
    over.wait();
    return {};
  });
  const auto loader =
      *Loader::make(data, kPlan, {.prefetch_threads = 1, .patience = std::chrono::seconds(0)});
  loader->prefetch({kFirst});
  begun.wait(false);
  EXPECT_EQ(loader->get(kFirst).error().kind, ErrorKind::kTimedOut);
  over.count_down();
  const ShareId next{{0, 1}, 0};
  expect_numbers(loader->get(next), next);
}

TEST(Loader, PlanAndDataSetMustFit) {
  const auto data = std::make_shared<SlowNumbers>(103);
  EXPECT_FALSE(Loader::make(nullptr, kPlan).ok());
  EXPECT_THAT(Loader::make(std::make_shared<SlowNumbers>(9), kPlan).error().message,
              HasSubstr("the data set has 9"));
  EXPECT_FALSE(Loader::make(data, kPlan, {.prefetch_threads = -1}).ok());
  const auto loader = *Loader::make(data, kPlan);
  EXPECT_EQ(loader->get({{0, 99}, 0}).error().kind, ErrorKind::kUsage);
}

// 256 images of 2x3: image i holds the byte i.
std::shared_ptr<const Dataset> all_bytes(const test::TempFolder& folder) {
  std::string images, labels;
  for (int i = 0; i < 256; ++i) {
    images += std::string(6, static_cast<char>(i));
    labels += static_cast<char>(i % 10);
  }
  folder.write("t10k-images-idx3-ubyte", idx_bytes(0x08, {256, 2, 3}, images));
  folder.write("t10k-labels-idx1-ubyte.gz", gzip(idx_bytes(0x08, {256}, labels)));
  auto data = open_mnist(folder.path(), Split::kTest);
  EXPECT_TRUE(data.ok()) << data.error().message;
  return *data;
}

TEST(ImageDataset, HasTheBitsOfToTensor) {
  const test::TempFolder folder;
  const auto data = all_bytes(folder);
  std::vector<std::int64_t> ids(256);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = 255 - static_cast<std::int64_t>(i);
  const Batch batch = *data->get(ids, {});
  EXPECT_EQ(batch.inputs.sizes(), (std::vector<std::int64_t>{256, 1, 2, 3}));
  EXPECT_EQ(batch.inputs.scalar_type(), at::kFloat);
  EXPECT_EQ(batch.targets.scalar_type(), at::kLong);
  EXPECT_EQ(batch.ids, ids);
  const at::Tensor bytes =
      at::tensor(ids).to(at::kByte).view({256, 1, 1, 1}).expand({256, 1, 2, 3}).contiguous();
  EXPECT_TRUE(at::equal(batch.inputs, bytes.to(at::kFloat).div(255)));
  EXPECT_TRUE(at::equal(batch.targets, at::tensor(ids).remainder(10)));
}

TEST(ImageDataset, RefusesIdsOutOfRange) {
  const test::TempFolder folder;
  const auto data = all_bytes(folder);
  for (const std::int64_t id : {-1, 256}) {
    const auto batch = data->get(std::vector<std::int64_t>{0, id}, {});
    ASSERT_FALSE(batch.ok());
    EXPECT_THAT(batch.error().message, HasSubstr("sample " + std::to_string(id)));
  }
}

TEST(TensorDataset, RowsAndTransform) {
  const at::Tensor inputs = at::arange(20, at::kFloat).view({10, 2});
  const auto data = *tensor_dataset(inputs, at::arange(10), [](Batch batch, const Pass& pass) {
    batch.inputs = batch.inputs + static_cast<double>(pass.epoch);
    return batch;
  });
  const Batch batch = *data->get(std::vector<std::int64_t>{7, 0}, {.epoch = 3});
  EXPECT_TRUE(at::equal(batch.inputs, at::tensor({17.0F, 18.0F, 3.0F, 4.0F}).view({2, 2})));
  EXPECT_TRUE(at::equal(batch.targets, at::tensor({7, 0}, at::kLong)));
  EXPECT_FALSE(tensor_dataset(inputs, at::arange(9)).ok());
  EXPECT_FALSE(tensor_dataset({}, {}).ok());
}

TEST(Evaluation, EachSampleOnceUnpadded) {
  const auto data = *tensor_dataset(at::arange(23), at::arange(23));
  std::vector<std::int64_t> seen;
  ASSERT_EQ(evaluation_batches(23, 10), 3);
  for (std::int64_t i = 0; i < 3; ++i) {
    const Batch batch = *evaluation_batch(*data, 10, i);
    seen.insert(seen.end(), batch.ids.begin(), batch.ids.end());
  }
  ASSERT_EQ(seen.size(), 23U);
  for (std::size_t i = 0; i < seen.size(); ++i) EXPECT_EQ(seen[i], static_cast<std::int64_t>(i));
  EXPECT_FALSE(evaluation_batch(*data, 10, 3).ok());
  EXPECT_FALSE(evaluation_batch(*data, 0, 0).ok());
}

}  // namespace
}  // namespace lockstep::data

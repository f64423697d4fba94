#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <latch>
#include <random>
#include <thread>

#include "base/deadline.h"
#include "data/pieces.h"
#include "lockstep/data.h"
#include "unit/data/share_plans.h"

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

}  // namespace
}  // namespace lockstep::data

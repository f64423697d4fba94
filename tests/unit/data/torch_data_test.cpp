// libtorch's data sets in a run: equal bits, copies for threads, and what is not fit for one.
#include "lockstep/torch_data.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/data/datasets/map.h>
#include <torch/data/datasets/mnist.h>
#include <torch/data/datasets/tensor.h>
#include <torch/data/transforms/lambda.h>
#include <torch/data/transforms/stack.h>
#include <torch/data/transforms/tensor.h>

#include <atomic>
#include <stdexcept>

#include "support/temp_folder.h"
#include "unit/data/idx_bytes.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using torch::data::Example;
using torch::data::transforms::Stack;
using Ids = std::vector<std::int64_t>;

std::atomic<int> copies{0};

// Sample i is [i, i + 0.5], its target i. Not fit for two threads at a time.
struct Pairs : torch::data::datasets::Dataset<Pairs> {
  explicit Pairs(std::int64_t size) : count(size) {}
  Pairs(const Pairs& other) : torch::data::datasets::Dataset<Pairs>(other), count(other.count) {
    ++copies;
  }
  Example<> get(std::size_t index) override {
    EXPECT_FALSE(std::exchange(busy, true));
    if (index == 99) throw std::runtime_error("sample 99 cannot be read");
    const auto i = static_cast<float>(index);
    Example<> example{at::tensor({i, i + 0.5F}),
                      at::scalar_tensor(static_cast<std::int64_t>(index), at::kLong)};
    busy = false;
    return example;
  }
  std::optional<std::size_t> size() const override {
    return count < 0 ? std::nullopt : std::optional<std::size_t>(count);
  }
  std::int64_t count;
  bool busy = false;
};

TEST(FromTorch, HasTheBitsOfWhatItIsMadeOf) {
  const torch::data::transforms::Normalize<> normalize(0.25, 3.0);
  auto expected = Pairs(10).map(normalize).map(Stack<>());
  const auto set = *from_torch(Pairs(10).map(normalize).map(Stack<>()));
  EXPECT_EQ(set->size(), 10);
  const Batch batch = *set->get(Ids{7, 0, 7}, {});
  const Example<> wanted = expected.get_batch(std::vector<std::size_t>{7, 0, 7});
  EXPECT_TRUE(at::equal(batch.inputs, wanted.data));
  EXPECT_TRUE(at::equal(batch.targets, wanted.target));
  EXPECT_EQ(batch.ids, (Ids{7, 0, 7}));
}

TEST(FromTorch, StacksExamplesAndDoesWithoutTargets) {
  const Batch batch = *(*from_torch(Pairs(10)))->get(Ids{3, 4}, {});
  EXPECT_TRUE(at::equal(batch.inputs, at::tensor({3.0F, 3.5F, 4.0F, 4.5F}).view({2, 2})));
  EXPECT_TRUE(at::equal(batch.targets, at::tensor(Ids{3, 4})));

  const at::Tensor rows = at::arange(12, at::kFloat).view({4, 3});
  const auto alone = *from_torch(torch::data::datasets::TensorDataset(rows));
  const Batch without = *alone->get(Ids{1, 3}, {});
  EXPECT_TRUE(at::equal(without.inputs, rows.index_select(0, at::tensor(Ids{1, 3}))));
  EXPECT_EQ(without.targets.sizes(), (Ids{2, 0}));
}

TEST(FromTorch, IsCopiedForEachThreadThatReadsAndNotForEachBatch) {
  const auto set = *from_torch(Pairs(64).map(Stack<>()));
  const DataPlan plan{.dataset_size = 64, .virtual_workers = 2, .batch_size = 4};
  auto plain = *Loader::make(set, plan), threaded = *Loader::make(set, plan, {3});
  copies = 0;
  for (std::uint64_t epoch = 0; epoch < 4; ++epoch)
    for (std::int64_t step = 0; step < plan.steps_per_epoch(); ++step) {
      threaded->prefetch({{{epoch, step}, 0}, {{epoch, step}, 1}, {{epoch, step + 1}, 0}});
      for (std::int64_t v = 0; v < 2; ++v) {
        const Batch one = *plain->get({{epoch, step}, v}),
                    other = *threaded->get({{epoch, step}, v});
        EXPECT_TRUE(at::equal(one.inputs, other.inputs));
        EXPECT_EQ(one.ids, other.ids);
      }
    }
  EXPECT_LE(copies, 5);  // three threads, this one, and a pair of hands
}

TEST(FromTorch, WhatGetBatchThrowsLeavesTheSetAsItWas) {
  const auto set = *from_torch(Pairs(100));
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(static_cast<void>(set->get(Ids{1, 99}, {})), std::runtime_error);
    EXPECT_TRUE(set->get(Ids{1, 98}, {}).ok());  // by a copy that is not busy
  }
}

TEST(FromTorch, RefusesWhatIsNotFitForARun) {
  EXPECT_THAT(from_torch(Pairs(-1)).error().message, HasSubstr("does not know its size"));
  EXPECT_THAT(from_torch(Pairs(0)).error().message, HasSubstr("is empty"));
  const auto set = *from_torch(Pairs(10));
  for (const std::int64_t id : {-1, 10})
    EXPECT_EQ(set->get(Ids{id}, {}).error().kind, ErrorKind::kUsage);
  using Examples = std::vector<Example<>>;
  const auto one_row = *from_torch(Pairs(10).map(
      torch::data::transforms::BatchLambda<Examples, Example<>>([](Examples examples) {
        return Example<>{examples[0].data.unsqueeze(0), at::zeros({2})};
      })));
  const auto batch = one_row->get(Ids{1, 2}, {});
  ASSERT_FALSE(batch.ok());
  EXPECT_EQ(batch.error().kind, ErrorKind::kBadData);
  EXPECT_THAT(batch.error().message, HasSubstr("of 2 samples gave inputs of 1"));
}

TEST(FromTorch, MnistAsOpenMnistReadsIt) {
  const test::TempFolder folder;  // that reader wants all 10,000
  std::string images(10000 * 28 * 28, '\0'), labels(10000, '\0');
  for (std::size_t i = 0; i < images.size(); ++i) images[i] = static_cast<char>(i % 251);
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<char>(i % 10);
  folder.write("t10k-images-idx3-ubyte", idx_bytes(0x08, {10000, 28, 28}, images));
  folder.write("t10k-labels-idx1-ubyte", idx_bytes(0x08, {10000}, labels));
  using torch::data::datasets::MNIST;
  const auto theirs = *from_torch(MNIST(folder.path(), MNIST::Mode::kTest).map(Stack<>()));
  const auto ours = *open_mnist(folder.path(), Split::kTest);
  EXPECT_EQ(theirs->size(), ours->size());
  const Batch a = *theirs->get(Ids{0, 77, 9999}, {}), b = *ours->get(Ids{0, 77, 9999}, {});
  EXPECT_TRUE(at::equal(a.inputs, b.inputs));
  EXPECT_TRUE(at::equal(a.targets, b.targets));
}

}  // namespace
}  // namespace lockstep::data

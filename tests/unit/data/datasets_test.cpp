// The data sets of images and tensors, and the batches of an evaluation.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data.h"
#include "support/temp_folder.h"
#include "unit/data/idx_bytes.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;

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

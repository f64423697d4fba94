#include "train/data_identity.h"

#include <ATen/Functions.h>
#include <gtest/gtest.h>

namespace lockstep::training {
namespace {

std::string identity(const data::Dataset& dataset) {
  rundir::RunManifest manifest;
  const Status added = add_data(manifest, "dataset", dataset);
  EXPECT_TRUE(added.ok()) << added.error().message;
  return manifest.json();
}

struct Samples {
  at::Tensor inputs = at::arange(200, at::kFloat).reshape({100, 2});
  at::Tensor targets = at::arange(100, at::kLong);
};

std::string identity(const Samples& samples, data::Transform transform = nullptr) {
  return identity(**data::tensor_dataset(samples.inputs, samples.targets, std::move(transform)));
}

// As a program's own: no fingerprint.
class Own final : public data::Dataset {
 public:
  explicit Own(Samples samples) : samples_(std::move(samples)) {}
  std::int64_t size() const override { return samples_.targets.size(0); }
  Result<data::Batch> get(std::span<const std::int64_t> ids, const data::Pass&) const override {
    const at::Tensor index = at::tensor(std::vector<std::int64_t>(ids.begin(), ids.end()));
    return data::Batch{samples_.inputs.index_select(0, index),
                       samples_.targets.index_select(0, index),
                       {ids.begin(), ids.end()}};
  }

 private:
  Samples samples_;
};

TEST(DataIdentity, EverySampleOfATensorDatasetCounts) {
  const std::string before = identity(Samples());
  EXPECT_EQ(identity(Samples()), before);
  for (std::int64_t i = 0; i < 100; i += 11) {
    Samples targets, inputs;
    targets.targets[i] = 7000;
    EXPECT_NE(identity(targets), before) << i;
    inputs.inputs[i][1] = -1;
    EXPECT_NE(identity(inputs), before) << i;
  }
  Samples doubles, flat;
  doubles.targets = doubles.targets.to(at::kInt);
  EXPECT_NE(identity(doubles), before);
  flat.inputs = flat.inputs.reshape({100, 1, 2});
  EXPECT_NE(identity(flat), before);
}

TEST(DataIdentity, SoDoesATransform) {
  const auto negative = [](data::Batch batch, const data::Pass&) {
    batch.targets = -batch.targets;
    return batch;
  };
  EXPECT_NE(identity(Samples(), negative), identity(Samples()));
}

TEST(DataIdentity, OwnDatasetsAreProbedFromTheFirstToTheLastSample) {
  const std::string before = identity(Own(Samples()));
  EXPECT_EQ(before.find("fingerprint"), std::string::npos) << before;
  for (const std::int64_t i : {0, 6, 12, 99}) {
    Samples targets, inputs;
    targets.targets[i] = 7000;
    EXPECT_NE(identity(Own(targets)), before) << i;
    inputs.inputs[i][1] = -1;
    EXPECT_NE(identity(Own(inputs)), before) << i;
  }
  Samples few;
  few.inputs = few.inputs.slice(0, 0, 3);
  few.targets = few.targets.slice(0, 0, 3);
  EXPECT_NE(identity(Own(few)), before);
}

}  // namespace
}  // namespace lockstep::training

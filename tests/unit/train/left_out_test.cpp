// A share all of whose samples are damaged. A process has one run, so this is one.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/lockstep.h"
#include "support/temp_folder.h"

namespace lockstep {
namespace {

// Three samples, one for each virtual worker; the second is damaged. y = w x, and y is the loss.
TEST(LeftOut, AShareHasTheNextSampleInPlaceOfADamagedOne) {
  const test::TempFolder folder;
  Result<Context> context = init({.threads = 1});
  ASSERT_TRUE(context.ok()) << context.error().message;
  torch::nn::Linear net(torch::nn::LinearOptions(1, 1).bias(false));
  {
    const at::NoGradGuard no_grad;
    net->weight.fill_(1);
  }
  SGD optimizer(net->parameters(), {.lr = 0.5});
  RunOptions options;
  options.output = folder / "run";
  options.epochs = 1;
  options.batch_size = 1;
  options.virtual_workers = 3;
  options.rehearse = 0;  // each share is computed once
  options.shuffle = data::Shuffle::kSequential;
  Trainer trainer(*context, *net, optimizer, options);
  int calls = 0;
  trainer.loss([&](const data::Batch& batch) {
    ++calls;
    return net->forward(batch.inputs).mean();
  });
  std::vector<std::int64_t> samples;
  trainer.step_lines([&](const StepEnd& end) {
    samples = end.samples;
    return std::string();
  });
  const auto data = data::tensor_dataset(
      at::tensor({3.0F, 100.0F, 6.0F}).view({3, 1}), at::zeros({3}),
      [](data::Batch batch, const data::Pass&) {
        if (batch.ids.front() != 1) return batch;
        return data::Batch{batch.inputs.slice(0, 0, 0), batch.targets.slice(0, 0, 0), {}};
      });
  const Status done = trainer.fit(*data);
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(samples, (std::vector<std::int64_t>{1, 1, 1}));
  EXPECT_EQ(net->weight.item<float>(), 1.0F - 0.5F * ((3.0F + 6.0F + 6.0F) / 3.0F));
  EXPECT_NE(test::read_text(folder / "run/ledger.jsonl")
                .find("\"ids\":[[0],[2],[2]],\"replaced\":[[1,2]]}\n"),
            std::string::npos);
  EXPECT_NE(test::read_text(folder / "run/metrics.jsonl").find(",\"replaced\":1,"),
            std::string::npos);
}

}  // namespace
}  // namespace lockstep

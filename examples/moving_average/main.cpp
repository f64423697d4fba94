// An exponential moving average of the weights, as a hook of each update: a second network, in the
// run's state, that follows the first one and is the one that is evaluated. Kill what you like: the
// average ends with the same bits.
//
//   lockstep run --standalone --nproc-per-node 3 build/release/examples/moving_average
#include <ATen/core/grad_mode.h>
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>

#include "lockstep/lockstep.h"

namespace F = torch::nn::functional;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    hidden = register_module("hidden", torch::nn::Linear(784, 128));
    norm = register_module("norm", torch::nn::BatchNorm1d(128));
    scores = register_module("scores", torch::nn::Linear(128, 10));
  }
  at::Tensor forward(const at::Tensor& images) {
    return scores(F::relu(norm(hidden(images.flatten(1)))));
  }
  torch::nn::Linear hidden{nullptr}, scores{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(Net);

// Weights by `decay`; buffers, batch norm's running statistics, as they are.
static void follow(Net& average, const Net& net, double decay) {
  const std::vector<at::Tensor> weights = net->parameters(), buffers = net->buffers();
  for (std::size_t i = 0; i < weights.size(); ++i)
    average->parameters()[i].lerp_(weights[i], 1 - decay);
  for (std::size_t i = 0; i < buffers.size(); ++i) average->buffers()[i].copy_(buffers[i]);
}

static lockstep::Status train(lockstep::Context& context, const lockstep::RunOptions& options,
                              const std::string& data) {
  LOCKSTEP_ASSIGN(auto digits, lockstep::data::open_images(data, lockstep::data::Split::kTrain));
  LOCKSTEP_ASSIGN(auto test, lockstep::data::open_images(data, lockstep::data::Split::kTest));
  at::manual_seed(options.seed);
  Net net, average;
  lockstep::SGD optimizer(net->parameters(), {.lr = 0.05, .momentum = 0.9});

  // The average is nobody's to train, and judges as it stands.
  for (at::Tensor& weight : average->parameters()) weight.requires_grad_(false);
  average->eval();
  {
    const at::NoGradGuard no_grad;
    follow(average, net, 0);
  }

  lockstep::Trainer trainer(context, *net, optimizer, options);
  trainer.add("average", *average);
  trainer.on_update([&](const lockstep::UpdateEnd& end) {
    // It begins faster: as a mean of the first updates.
    const double updates = static_cast<double>(end.global_step);
    follow(average, net, std::min(0.99, (1 + updates) / (10 + updates)));
  });
  trainer.loss([&](const lockstep::data::Batch& batch) {
    return F::cross_entropy(net(batch.inputs), batch.targets);
  });
  trainer.evaluation([&](const lockstep::data::Batch& batch) {
    return lockstep::cross_entropy_score(average(batch.inputs), batch.targets);
  });
  return trainer.fit(digits, test);
}

int main(int argc, char** argv) {
  std::string data = "synthetic";
  lockstep::RunOptions options{
      .name = "moving_average", .output = "moving_average-run", .epochs = 2, .batch_size = 64};
  lockstep::CommandLine line("moving_average", "digits, judged by an average of the weights");
  line.add_path("--data", data, "'synthetic', or a folder with MNIST's IDX files");
  lockstep::add_run_options(line, options);
  line.parse(argc, argv);

  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, train(*context, options, data));
}

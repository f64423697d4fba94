#include <torch/torch.h>

#include "lockstep/lockstep.h"

static lockstep::Status train(lockstep::Context& context, const lockstep::RunOptions& options) {
  torch::manual_seed(options.seed);  // every worker makes the same data and the same first weights
  const auto points = torch::rand({60000, 2}) * 2 - 1;
  const auto on_ring = (points.square().sum(1) - 0.5).abs() < 0.2;
  LOCKSTEP_ASSIGN(auto data, lockstep::data::tensor_dataset(points, on_ring.to(torch::kLong)));

  torch::nn::Linear hidden(2, 64), out(64, 2);
  torch::nn::Sequential model(hidden, torch::nn::ReLU(), out);
  lockstep::Adam optimizer(model->parameters(), {.lr = 1e-2});
  lockstep::Trainer trainer(context, *model, optimizer, options);
  trainer.loss([&](const lockstep::data::Batch& batch) {
    return torch::cross_entropy_loss(model->forward(batch.inputs), batch.targets);
  });
  return trainer.fit(data);
}

int main(int argc, char** argv) {
  lockstep::RunOptions options{.name = "ring", .output = "ring-run"};
  lockstep::CommandLine line("ring", "which points of a square lie on a ring");
  lockstep::add_run_options(line, options);  // --epochs, --batch-size, --output, ...
  line.parse(argc, argv);
  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, train(*context, options));
}

// Fits y = 3x - 1 with gradient descent, on as many workers as it is started with.
#include <ATen/ops/linspace.h>
#include <ATen/ops/mse_loss.h>
#include <torch/nn/modules/linear.h>

#include "lockstep/lockstep.h"

static lockstep::Status train(lockstep::Context& context) {
  const at::Tensor x = at::linspace(-1, 1, 256).unsqueeze(1);
  LOCKSTEP_ASSIGN(auto points, lockstep::data::tensor_dataset(x, 3 * x - 1));
  torch::manual_seed(0);
  torch::nn::Linear model(1, 1);
  lockstep::SGD optimizer(model->parameters(), {.lr = 0.1});

  lockstep::RunOptions options{
      .name = "line", .output = "line-run", .epochs = 20, .batch_size = 16};
  lockstep::Trainer trainer(context, *model, optimizer, options);
  trainer.loss([&](const lockstep::data::Batch& batch) {
    return at::mse_loss(model->forward(batch.inputs), batch.targets);
  });
  return trainer.fit(points);
}

int main() {
  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, train(*context));
}

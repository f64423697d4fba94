#include <ATen/Context.h>
#include <torch/nn/functional/loss.h>

#include "lockstep/lockstep.h"
#include "lockstep/models.h"
#include "options.h"

namespace F = torch::nn::functional;
using lockstep::data::Batch;

static lockstep::Status train(lockstep::Context& context, const convnet::Options& options) {
  LOCKSTEP_ASSIGN(auto train_set,
                  lockstep::data::open_images(options.data, lockstep::data::Split::kTrain));
  LOCKSTEP_ASSIGN(auto test_set,
                  lockstep::data::open_images(options.data, lockstep::data::Split::kTest));
  at::manual_seed(options.run.seed);
  const auto model = lockstep::models::convnet();
  const auto optimizer = convnet::make_optimizer(options, model->parameters());

  lockstep::Trainer trainer(context, *model, *optimizer, options.run);
  trainer.loss([&](const Batch& batch) {
    return F::cross_entropy(model->forward(batch.inputs), batch.targets);
  });
  trainer.evaluation([&](const Batch& batch) {
    const at::Tensor scores = model->forward(batch.inputs);
    const auto sum = F::CrossEntropyFuncOptions().reduction(torch::kSum);
    return lockstep::Score{F::cross_entropy(scores, batch.targets, sum).item<double>(),
                           scores.argmax(1).eq(batch.targets).sum().item<double>(),
                           batch.targets.size(0)};
  });
  return trainer.fit(train_set, test_set);
}

int main(int argc, char** argv) {
  const convnet::Options options = convnet::parse(argc, argv);
  auto context = lockstep::init({.threads = options.threads});
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, train(*context, options));
}

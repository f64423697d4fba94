#include "lockstep/data_parallel.h"

#include <ATen/Context.h>
#include <torch/nn/functional/loss.h>

#include "lockstep/models.h"
#include "lockstep/trainer.h"
#include "modes.h"
#include "tutorial.h"

namespace convnet {

namespace F = torch::nn::functional;
using lockstep::data::Batch;
using Net = std::shared_ptr<lockstep::models::Network>;

lockstep::Status train_data_parallel(lockstep::Context& context, const Options& options) {
  LOCKSTEP_ASSIGN(
      auto train_set,
      lockstep::data::open_images(options.data, lockstep::data::Split::kTrain, options.image_size));
  LOCKSTEP_ASSIGN(
      auto test_set,
      lockstep::data::open_images(options.data, lockstep::data::Split::kTest, options.image_size));
  at::manual_seed(options.run.seed);
  const Net net = lockstep::models::convnet();
  lockstep::DataParallel<Net> model(
      net, [] { return lockstep::models::convnet(); }, options.replicas);
  const auto optimizer = make_optimizer(options, net->parameters());

  lockstep::Trainer trainer(context, *net, *optimizer, options.run);
  trainer.loss(
      [&](const Batch& batch) { return F::cross_entropy(model(batch.inputs), batch.targets); });
  trainer.evaluation([&](const Batch& batch) {
    return lockstep::cross_entropy_score(net->forward(batch.inputs), batch.targets);
  });
  if (options.check_against_tutorial)
    trainer.on_finished([&] { return check_against_tutorial(options.mode, options.run.output); });
  return trainer.fit(train_set, test_set);
}

}  // namespace convnet

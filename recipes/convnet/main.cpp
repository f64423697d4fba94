#include <ATen/Context.h>
#include <torch/nn/functional/loss.h>

#include "greeting.h"
#include "lockstep/lockstep.h"
#include "lockstep/models.h"
#include "modes.h"
#include "precision.h"
#include "tutorial.h"

namespace F = torch::nn::functional;
using lockstep::data::Batch;
using lockstep::data::open_images;
using lockstep::data::Split;

static lockstep::Status train(lockstep::Context& context, const convnet::Options& options) {
  LOCKSTEP_ASSIGN(auto train_set, open_images(options.data, Split::kTrain, options.image_size));
  LOCKSTEP_ASSIGN(auto test_set, open_images(options.data, Split::kTest, options.image_size));
  at::manual_seed(options.run.seed);
  const auto model = lockstep::models::convnet();
  convnet::Precision precision(options, *model);  // --opt-level
  const auto optimizer = convnet::make_optimizer(options, precision.parameters());

  lockstep::Trainer trainer(context, *model, *optimizer, options.run);
  precision.attach(trainer);
  trainer.loss([&](const Batch& batch) {
    return F::cross_entropy(precision.forward(batch.inputs), batch.targets);
  });
  trainer.evaluation([&](const Batch& batch) {
    return lockstep::cross_entropy_score(precision.forward(batch.inputs), batch.targets);
  });
  if (options.check_against_tutorial)
    trainer.on_finished(
        [&] { return convnet::check_against_tutorial(options.mode, options.run.output); });
  return trainer.fit(train_set, test_set);
}

int main(int argc, char** argv) {
  const convnet::Options options = convnet::parse(argc, argv);
  convnet::greet(options);
  auto* way = train;
  if (options.mode == convnet::Mode::kDataParallel) way = convnet::train_data_parallel;
  if (options.mode == convnet::Mode::kHorovod) way = convnet::train_horovod;
  const lockstep::InitOptions process{.threads = options.threads, .rendezvous = options.rendezvous};
  if (options.spawned > 0) {
    const auto worker = [&](lockstep::Context& context) { return way(context, options); };
    const lockstep::Status done =
        lockstep::spawn(options.spawned, worker, {.init = process, .launcher = {}});
    if (!done.ok()) lockstep::exit_with(done.error());
    return 0;
  }
  auto context = lockstep::init(process);
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, way(*context, options));
}

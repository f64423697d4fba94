#include "lockstep/horovod.h"

#include <ATen/Context.h>
#include <torch/nn/functional/loss.h>

#include "lockstep/models.h"
#include "modes.h"
#include "precision.h"
#include "tutorial.h"

namespace convnet {

namespace F = torch::nn::functional;

lockstep::Status train_horovod(lockstep::Context& context, const Options& options) {
  LOCKSTEP_ASSIGN(auto hvd, lockstep::horovod::init(context, options.run));
  LOCKSTEP_ASSIGN(
      auto train_set,
      lockstep::data::open_images(options.data, lockstep::data::Split::kTrain, options.image_size));
  at::manual_seed(options.run.seed);
  const auto model = lockstep::models::convnet();
  Precision precision(options, *model);
  const auto own = make_optimizer(options, precision.parameters());
  LOCKSTEP_TRY(hvd.broadcast_parameters(*model));
  LOCKSTEP_TRY(hvd.broadcast_optimizer_state(*own));
  LOCKSTEP_TRY(precision.attach(*hvd.state()));
  lockstep::horovod::DistributedOptimizer optimizer(hvd, *own, *model);

  if (options.check_against_tutorial)
    hvd.step()->on_finished(
        [&] { return check_against_tutorial(options.mode, options.run.output); });
  LOCKSTEP_TRY(hvd.step()->open(train_set));
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, hvd.step()->next());
    if (!more) return {};
    LOCKSTEP_TRY(optimizer.step([&](lockstep::Share& share) {
      return F::cross_entropy(precision.forward(share.batch().inputs), share.batch().targets);
    }));
  }
}

}  // namespace convnet

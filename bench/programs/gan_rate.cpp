// Milliseconds of a small GAN's two updates, the discriminator's and the generator's: in one step
// of two updates, or each as a step of its own. Prints one JSON object.
//
//   lockstep run ... gan_rate together WARM_UP PAIRS RUN_DIR   updates_per_step = 2
//   lockstep run ... gan_rate alone WARM_UP PAIRS RUN_DIR      two steps, each with a batch
//
// The two end with other weights: a step of its own has a batch and a seed of its own.
#include <ATen/Context.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>

#include "networks.h"
#include "programs/rate_loop.h"

namespace lockstep::bench {
namespace {

constexpr std::int64_t kBatch = 64, kPictures = 4096;

// One step, or two; false: the run is over.
Result<bool> pair(Step& step, bool together, const Step::Update& d, const Step::Update& g) {
  LOCKSTEP_ASSIGN(const bool more, step.next());
  if (!more) return false;
  if (together) {
    LOCKSTEP_TRY(step.run({d, g}));
    return true;
  }
  LOCKSTEP_TRY(step.run(d.optimizers, d.loss));
  LOCKSTEP_ASSIGN(const bool second, step.next());
  if (second) LOCKSTEP_TRY(step.run(g.optimizers, g.loss));
  return second;
}

Status train(Context& context, const RateJob& job) {
  const bool together = job.form == "together";
  at::manual_seed(0);
  Generator generator;
  Discriminator discriminator;
  Adam g_optimizer(generator->parameters(), {.lr = 2e-4, .beta1 = 0.5});
  Adam d_optimizer(discriminator->parameters(), {.lr = 2e-4, .beta1 = 0.5});
  LOCKSTEP_ASSIGN(auto set, data::tensor_dataset(at::rand({kPictures, kPixels}) * 2 - 1,
                                                 at::zeros({kPictures}, at::kLong)));
  TrainState state;
  LOCKSTEP_TRY(state.add("generator", *generator));
  LOCKSTEP_TRY(state.add("discriminator", *discriminator));
  LOCKSTEP_TRY(state.add("g_optimizer", g_optimizer));
  LOCKSTEP_TRY(state.add("d_optimizer", d_optimizer));
  const auto fake = [&](Share& share) {
    at::manual_seed(share.seed());
    return generator(at::randn({share.batch().inputs.size(0), kNoise}));
  };
  const Step::Update d{d_optimizer, [&](Share& share) {
                         return loss_against(discriminator(share.batch().inputs), 1) +
                                loss_against(discriminator(fake(share).detach()), 0);
                       }};
  const Step::Update g{g_optimizer,
                       [&](Share& share) { return loss_against(discriminator(fake(share)), 1); }};
  RunOptions options = rate_options("gan_rate", job);
  options.updates_per_step = together ? 2 : 1;
  options.max_steps = together ? job.all() : 2 * job.all();
  options.epochs = 1'000'000;
  options.batch_size = kBatch;
  Step step(context, state, options);
  LOCKSTEP_TRY(step.open(set));
  return timed(context, job, [&] { return pair(step, together, d, g); });
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  return lockstep::bench::rate_main(argc, argv, "gan_rate", "together", "alone",
                                    lockstep::bench::train);
}

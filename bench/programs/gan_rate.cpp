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

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/deadline.h"
#include "lockstep/context.h"
#include "lockstep/step.h"
#include "networks.h"

namespace lockstep::bench {
namespace {

constexpr std::int64_t kBatch = 64, kPictures = 4096;
constexpr int kVirtualWorkers = 2;

RunOptions options_of(bool together, std::int64_t pairs, const char* run_dir) {
  RunOptions options;
  options.name = "gan_rate";
  options.output = run_dir;
  options.updates_per_step = together ? 2 : 1;
  options.max_steps = together ? pairs : 2 * pairs;
  options.epochs = 1'000'000;
  options.batch_size = kBatch;
  options.virtual_workers = kVirtualWorkers;
  options.resume = "never";
  options.checkpoint_every = {};
  options.log_every = {};
  options.rehearse = 0;
  return options;
}

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

Status train(Context& context, bool together, std::int64_t warm_up, std::int64_t pairs,
             const char* run_dir) {
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
  Step step(context, state, options_of(together, warm_up + pairs, run_dir));
  LOCKSTEP_TRY(step.open(set));
  std::uint64_t begin = 0;
  for (std::int64_t i = 0;; ++i) {
    if (i == warm_up) begin = monotonic_ns();
    if (i == warm_up + pairs && context.rank() == 0)
      std::printf("{\"ms\": %.4f}\n",
                  static_cast<double>(monotonic_ns() - begin) * 1e-6 / static_cast<double>(pairs));
    LOCKSTEP_ASSIGN(const bool more, pair(step, together, d, g));
    if (!more) return {};
  }
}

int measure(int argc, char** argv) {
  const std::string how = argc == 5 ? argv[1] : "";
  if (how != "together" && how != "alone") {
    std::fputs("usage: gan_rate together|alone WARM_UP PAIRS RUN_DIR\n", stderr);
    return 2;
  }
  auto context = init();
  if (!context.ok()) exit_with(context.error());
  exit_with(*context,
            train(*context, how == "together", std::atol(argv[2]), std::atol(argv[3]), argv[4]));
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) { return lockstep::bench::measure(argc, argv); }

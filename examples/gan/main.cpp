// A GAN whose step is two updates from one batch: the discriminator's, then the generator's. Each
// asks for the gradients of its own optimizer's parameters alone. Kill what you like, in whichever
// of the two it is.
//
//   lockstep run --standalone --nproc-per-node 3 build/release/examples/gan
//
// With one worker, losses and parameters are those of the plain loop of libtorch, bit for bit
// (tests/loops/gan_plain.cpp). The generator's running statistics are not: a plain loop calls it
// once a step, and here both losses do, so that its batch norm moves twice.
#include <ATen/Context.h>

#include "lockstep/lockstep.h"
#include "networks.h"

static lockstep::Status train(lockstep::Context& context, const lockstep::RunOptions& options,
                              const std::string& data) {
  LOCKSTEP_ASSIGN(auto digits, lockstep::data::open_images(data, lockstep::data::Split::kTrain));
  at::manual_seed(options.seed);
  Generator generator;
  Discriminator discriminator;
  lockstep::Adam g_optimizer(generator->parameters(), {.lr = 2e-4, .beta1 = 0.5});
  lockstep::Adam d_optimizer(discriminator->parameters(), {.lr = 2e-4, .beta1 = 0.5});

  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("generator", *generator));
  LOCKSTEP_TRY(state.add("discriminator", *discriminator));
  LOCKSTEP_TRY(state.add("g_optimizer", g_optimizer));
  LOCKSTEP_TRY(state.add("d_optimizer", d_optimizer));

  // The same noise in both updates of the step, another in each share and step.
  const auto fake = [&](lockstep::Share& share) {
    at::manual_seed(share.seed());
    return generator(at::randn({share.batch().inputs.size(0), kNoise}));
  };
  const auto d_loss = [&](lockstep::Share& share) {
    const at::Tensor real = share.batch().inputs.flatten(1) * 2 - 1;
    return loss_against(discriminator(real), 1) +
           loss_against(discriminator(fake(share).detach()), 0);
  };
  const auto g_loss = [&](lockstep::Share& share) {
    return loss_against(discriminator(fake(share)), 1);
  };

  lockstep::Step step(context, state, options);
  LOCKSTEP_TRY(step.open(digits));
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    LOCKSTEP_TRY(step.run({{d_optimizer, d_loss}, {g_optimizer, g_loss}}));
  }
}

int main(int argc, char** argv) {
  std::string data = "synthetic";
  lockstep::RunOptions options{.name = "gan",
                               .output = "gan-run",
                               .max_steps = 300,
                               .batch_size = 64,
                               .updates_per_step = 2};
  lockstep::CommandLine line("gan", "digits by a small GAN");
  line.add_path("--data", data, "'synthetic', or a folder with MNIST's IDX files");
  lockstep::add_run_options(line, options);
  line.parse(argc, argv);

  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, train(*context, options, data));
}

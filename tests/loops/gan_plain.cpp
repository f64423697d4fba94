// gan_plain CHECKPOINT STEPS BATCH: the plain loop of libtorch that examples/gan is with one
// virtual worker, its data in order.
#include <ATen/Context.h>
#include <ATen/TensorOperators.h>

#include <numeric>
#include <vector>

#include "lockstep/data.h"
#include "lockstep/optim.h"
#include "networks.h"
#include "plain_loop.h"

static lockstep::Status train(const std::string& checkpoint, std::int64_t steps,
                              std::int64_t batch) {
  LOCKSTEP_ASSIGN(auto digits,
                  lockstep::data::open_images("synthetic", lockstep::data::Split::kTrain));
  at::manual_seed(0);
  Generator generator;
  Discriminator discriminator;
  lockstep::Adam g_optimizer(generator->parameters(), {.lr = 2e-4, .beta1 = 0.5});
  lockstep::Adam d_optimizer(discriminator->parameters(), {.lr = 2e-4, .beta1 = 0.5});
  for (std::int64_t step = 0; step < steps; ++step) {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(batch));
    std::iota(ids.begin(), ids.end(), step * batch);
    LOCKSTEP_ASSIGN(const auto images, digits->get(ids, {}));
    at::manual_seed(plain::seed_of(step));
    const at::Tensor fake = generator(at::randn({batch, kNoise}));

    discriminator->zero_grad();
    const at::Tensor real = images.inputs.flatten(1) * 2 - 1;
    const at::Tensor d_loss =
        loss_against(discriminator(real), 1) + loss_against(discriminator(fake.detach()), 0);
    d_loss.backward();
    d_optimizer.step();
    plain::print_loss(d_loss);

    generator->zero_grad();
    const at::Tensor g_loss = loss_against(discriminator(fake), 1);
    g_loss.backward();
    g_optimizer.step();
    plain::print_loss(g_loss);
  }
  LOCKSTEP_TRY(plain::compare(checkpoint, *generator));
  return plain::compare(checkpoint, *discriminator, "discriminator.");
}

int main(int argc, char** argv) { return plain::run(argc, argv, train); }

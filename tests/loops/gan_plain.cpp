// gan_plain RUN_DIR: the plain loop of libtorch that examples/gan is, for as many steps as the run
// in RUN_DIR has, with one virtual worker and its data in order. Prints the losses of each step as
// metrics.jsonl has them, and whether the run's parameters are these.
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "lockstep/checkpoint.h"
#include "lockstep/data.h"
#include "lockstep/optim.h"
#include "networks.h"

namespace {

using lockstep::Status;

// docs/design/arithmetic.md, "Random layers": of seed 0 and virtual worker 0.
std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
std::uint64_t seed_of(std::uint64_t step) { return mixed(mixed(mixed(0) ^ step) ^ 0); }

Status compare(const std::string& folder, const torch::nn::Module& module,
               const std::string& prefix) {
  LOCKSTEP_ASSIGN(const auto saved, lockstep::load_safetensors(folder + "/model.safetensors"));
  for (const auto& own : module.named_parameters()) {
    bool found = false;
    for (const auto& [name, tensor] : saved)
      if (name == prefix + own.key()) found = at::equal(tensor, own.value());
    if (!found) std::printf("%s%s differs\n", prefix.c_str(), own.key().c_str());
  }
  return {};
}

Status train(const std::string& folder, std::int64_t steps, std::int64_t batch) {
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
    at::manual_seed(seed_of(static_cast<std::uint64_t>(step)));
    const at::Tensor fake = generator(at::randn({batch, kNoise}));

    discriminator->zero_grad();
    const at::Tensor real = images.inputs.flatten(1) * 2 - 1;
    const at::Tensor d_loss =
        loss_against(discriminator(real), 1) + loss_against(discriminator(fake.detach()), 0);
    d_loss.backward();
    d_optimizer.step();

    generator->zero_grad();
    const at::Tensor g_loss = loss_against(discriminator(fake), 1);
    g_loss.backward();
    g_optimizer.step();
    std::printf("%.17g\n%.17g\n", d_loss.item<double>(), g_loss.item<double>());
  }
  LOCKSTEP_TRY(compare(folder, *generator, ""));
  LOCKSTEP_TRY(compare(folder, *discriminator, "discriminator."));
  std::printf("compared\n");
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  at::set_num_threads(1);
  const Status status = train(argv[1], std::atol(argv[2]), std::atol(argv[3]));
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.error().message.c_str());
  return status.ok() ? 0 : 1;
}

// A loop of one's own that survives: each optimizer step is given to the library as a closure. Here
// with a warm-up and a cosine schedule of the learning rate. (share.end_run() in the closure would
// end the run early, for all workers after the same step; to just return from the loop does not.)
//
//   lockstep run --standalone --nproc-per-node 3 build/release/examples/own_loop
#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "lockstep/lockstep.h"

namespace F = torch::nn::functional;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    hidden = register_module("hidden", torch::nn::Linear(784, 128));
    scores = register_module("scores", torch::nn::Linear(128, 10));
  }
  at::Tensor forward(const at::Tensor& images) {
    return scores(F::relu(hidden(images.flatten(1))));
  }
  torch::nn::Linear hidden{nullptr}, scores{nullptr};
};
TORCH_MODULE(Net);

// A pure function of the step: every worker computes the same, whenever it joined.
static double rate(std::int64_t step, std::int64_t steps) {
  const double warm_up = std::min(1.0, static_cast<double>(step + 1) / 50);
  const double done = static_cast<double>(step) / static_cast<double>(steps);
  return 1e-3 * warm_up * 0.5 * (1 + std::cos(std::numbers::pi * done));
}

static lockstep::Status train(lockstep::Context& context, const lockstep::RunOptions& options,
                              const std::string& data) {
  LOCKSTEP_ASSIGN(auto digits, lockstep::data::open_images(data, lockstep::data::Split::kTrain));
  at::manual_seed(options.seed);
  Net net;
  lockstep::Adam optimizer(net->parameters(), {.lr = 1e-3});

  // All that the next step depends on: what is saved, and copied to newcomers.
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("model", *net));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  lockstep::Step step(context, state, options);
  LOCKSTEP_TRY(step.open(digits));
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    optimizer.set_lr(rate(step.global_step(), step.total_steps()));
    LOCKSTEP_TRY(step.run(optimizer, [&](lockstep::Share& share) {
      return F::cross_entropy(net(share.batch().inputs), share.batch().targets);
    }));
  }
}

int main(int argc, char** argv) {
  std::string data = "synthetic";
  lockstep::RunOptions options{.name = "own_loop", .output = "own_loop-run", .max_steps = 300};
  lockstep::CommandLine line("own_loop", "digits with a small net, in a loop of one's own");
  line.add_path("--data", data, "'synthetic', or a folder with MNIST's IDX files");
  lockstep::add_run_options(line, options);
  line.parse(argc, argv);

  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, train(*context, options, data));
}

// best RUN_DIR FILE: the best weights of a loop of one's own, as docs/guide/own_loop.md shows it.
// tests/loops/own_loop_test.cpp runs it.
#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <limits>

#include "lockstep/checkpoint.h"
#include "lockstep/step.h"

namespace {

namespace F = torch::nn::functional;
using lockstep::Status;

torch::nn::Sequential network() {
  return torch::nn::Sequential(torch::nn::Linear(2, 16), torch::nn::BatchNorm1d(16),
                               torch::nn::ReLU(), torch::nn::Linear(16, 2));
}

// Which points of a square lie on a ring.
struct Points {
  explicit Points(std::int64_t count)
      : points(at::rand({count, 2}) * 2 - 1),
        on_ring(((points.square().sum(1) - 0.5).abs() < 0.2).to(at::kLong)) {}
  at::Tensor points, on_ring;
};

double loss_on(torch::nn::Sequential& net, const Points& set) {
  net->eval();
  const double loss = F::cross_entropy(net->forward(set.points), set.on_ring).item<double>();
  net->train();
  return loss;
}

void copy(const torch::nn::Sequential& from, torch::nn::Sequential& to) {
  const auto source = lockstep::state_dict(*from), target = lockstep::state_dict(*to);
  for (std::size_t i = 0; i < target.size(); ++i) target[i].second.copy_(source[i].second);
}

Status train(lockstep::Context& context, lockstep::RunOptions options, const std::string& file) {
  at::manual_seed(0);
  torch::nn::Sequential net = network(), best = network();
  lockstep::Adam optimizer(net->parameters(), {.lr = 0.1});
  const Points train_set(480), valid_set(200);
  LOCKSTEP_ASSIGN(auto data, lockstep::data::tensor_dataset(train_set.points, train_set.on_ring));
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("model", *net));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));

  for (at::Tensor& weight : best->parameters()) weight.requires_grad_(false);
  at::Tensor least = at::full({}, std::numeric_limits<double>::infinity(), at::kDouble);
  LOCKSTEP_TRY(state.add("best", *best));  // its tensors are "best.…"
  LOCKSTEP_TRY(state.add("judged", {{"loss", least}}));
  options.files = {file};  // found to be writable before the first step
  lockstep::Step step(context, state, options);
  step.on_update([&](const lockstep::UpdateEnd& end) {
    if (end.step + 1 != step.steps_per_epoch()) return;  // an epoch's last update
    const double loss = loss_on(net, valid_set);
    if (!(loss < least.item<double>())) return;
    least.fill_(loss);
    copy(net, best);
  });
  step.on_finished([&] { return lockstep::save_pt(file, *best); });
  LOCKSTEP_TRY(step.open(data));
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) break;
    if (step.epoch() == 5) optimizer.set_lr(3);  // from there on it gets worse
    LOCKSTEP_TRY(step.run(optimizer, [&](lockstep::Share& share) {
      return F::cross_entropy(net->forward(share.batch().inputs), share.batch().targets);
    }));
  }
  std::printf("best %.17g, last %.17g\n", least.item<double>(), loss_on(net, valid_set));
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::RunOptions options{.output = argv[1], .epochs = 8, .batch_size = 20};
  options.virtual_workers = 4;
  options.checkpoint_every = lockstep::Duration::steps(5);
  lockstep::exit_with(*context, train(*context, options, argv[2]));
}

// dqn RUN_DIR STEPS: deep Q-learning (Mnih et al. 2015) of examples/ppo's carts, as
// docs/guide/reinforcement_learning.md shows it. tests/loops/ppo_test.cpp runs it.
#include <ATen/core/grad_mode.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "cart_pole.h"
#include "lockstep/step.h"

namespace {

using lockstep::Status;

// Transitions: in the replay buffer, in a batch.
constexpr std::int64_t kRoom = 32768, kBatch = 64;
constexpr std::int64_t kNumbers = 2 * CartPoles::kSeen + 2;  // of each: seen, push, came out, fell

torch::nn::Sequential network() {
  return torch::nn::Sequential(torch::nn::Linear(CartPoles::kSeen, 64), torch::nn::ReLU(),
                               torch::nn::Linear(64, CartPoles::kPushes));
}

void copy(const torch::nn::Sequential& from, torch::nn::Sequential& to) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < from->parameters().size(); ++i)
    to->parameters()[i].copy_(from->parameters()[i]);
}

// One push of each cart, at random now and then, at first always: [kCarts, kNumbers].
at::Tensor play(torch::nn::Sequential& net, CartPoles& carts, std::int64_t step) {
  const at::NoGradGuard no_grad;
  const double at_random = std::max(0.05, 1 - static_cast<double>(step) / 200);
  const at::Tensor seen = carts.seen(), best = net->forward(seen).argmax(1);
  const at::Tensor push = at::where(at::rand({CartPoles::kCarts}) < at_random,
                                    at::randint_like(best, CartPoles::kPushes), best);
  const CartPoles::Pushed pushed = carts.push(push);
  return at::cat({seen, push.unsqueeze(1).to(at::kFloat), pushed.seen, pushed.fell.unsqueeze(1)},
                 1);
}

at::Tensor loss_of(torch::nn::Sequential& net, torch::nn::Sequential& target,
                   const at::Tensor& transitions) {
  const auto parts = transitions.split_with_sizes({CartPoles::kSeen, 1, CartPoles::kSeen, 1}, 1);
  const at::Tensor found = net->forward(parts[0]).gather(1, parts[1].to(at::kLong));
  const at::Tensor later = target->forward(parts[2]).amax(1, true).detach();
  return torch::nn::functional::mse_loss(found, 1 + 0.98 * later * (1 - parts[3]));
}

Status train(lockstep::Context& context, const std::string& folder, std::int64_t steps) {
  at::manual_seed(0);
  torch::nn::Sequential net = network(), target = network();
  for (at::Tensor& weight : target->parameters()) weight.requires_grad_(false);
  copy(net, target);
  lockstep::Adam optimizer(net->parameters(), {.lr = 3e-3});
  at::Tensor replay = at::zeros({kRoom, kNumbers});

  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("net", *net));
  LOCKSTEP_TRY(state.add("target", *target));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  LOCKSTEP_TRY(state.add("replay", {{"transitions", replay}}));
  LOCKSTEP_TRY(state.add_carried("carts", CartPoles::first_row()));
  LOCKSTEP_TRY(state.add_carried("played", at::zeros({CartPoles::kCarts, kNumbers})));

  lockstep::Step step(context, state,
                      {.name = "dqn", .output = folder, .max_steps = steps, .virtual_workers = 4});
  step.on_update([&](const lockstep::UpdateEnd& end) {
    const at::Tensor played = state.carried("played")->flatten(0, 1);     // of all virtual workers
    const std::int64_t place = end.global_step * played.size(0) % kRoom;  // of the oldest ones
    replay.slice(0, place, place + played.size(0)).copy_(played);
  });
  step.on_update([&](const lockstep::UpdateEnd& end) {
    if (end.global_step % 20 == 0) copy(net, target);
  });
  LOCKSTEP_TRY(step.open());

  const std::int64_t in_a_step = state.carried("played")->size(0) * CartPoles::kCarts;
  const auto loss = [&](lockstep::Share& share) {
    CartPoles carts(share.carried("carts"));
    const at::Tensor played = play(net, carts, share.global_step());
    share.carry("carts", carts.row());
    share.carry("played", played);
    const std::int64_t filled = std::min(kRoom, share.global_step() * in_a_step);
    const at::Tensor known = filled == 0 ? played : replay.slice(0, 0, filled);
    const at::Tensor drawn = at::randint(known.size(0), {kBatch}, at::kLong);
    return loss_of(net, target, known.index_select(0, drawn));
  };
  for (;;) {
    LOCKSTEP_ASSIGN(const bool goes_on, step.next());
    if (!goes_on) break;
    LOCKSTEP_TRY(step.run(optimizer, loss));
  }
  if (step.is_first())
    std::printf("mean return: %.1f\n",
                state.carried("carts")->select(2, CartPoles::kSeen + 1).mean().item<double>());
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, train(*context, argv[1], std::atol(argv[2])));
}

// Who pushes carts and who foretells how long poles will stand, and what they come to see.
#pragma once

#include <ATen/core/grad_mode.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <vector>

#include "cart_pole.h"

struct ActorCriticImpl : torch::nn::Module {
  ActorCriticImpl() {
    register_module("actor", actor);
    register_module("critic", critic);
  }
  static torch::nn::Sequential network(std::int64_t outputs) {
    using torch::nn::Linear, torch::nn::Tanh;
    return torch::nn::Sequential(Linear(CartPoles::kSeen, 64), Tanh(), Linear(64, 64), Tanh(),
                                 Linear(64, outputs));
  }
  at::Tensor log_probs(const at::Tensor& seen) { return at::log_softmax(actor->forward(seen), -1); }
  at::Tensor value(const at::Tensor& seen) { return critic->forward(seen).squeeze(-1); }
  torch::nn::Sequential actor = network(CartPoles::kPushes), critic = network(1);
};
TORCH_MODULE(ActorCritic);

// kSteps of kCarts, each [kSteps, kCarts], what they saw with kSeen numbers more. Advantages and
// returns are those of generalized advantage estimation (Schulman et al. 2016).
struct Rollout {
  static constexpr std::int64_t kSteps = 64;
  static constexpr double kDiscount = 0.99, kLambda = 0.95;
  at::Tensor carts;  // as they stand after it
  at::Tensor seen, pushes, log_probs, advantages, returns;
};

inline Rollout play(ActorCritic& net, const at::Tensor& row) {
  const at::NoGradGuard no_grad;
  CartPoles carts(row);
  std::vector<at::Tensor> seen, pushes, log_probs, came_out, fell, over;
  for (std::int64_t t = 0; t < Rollout::kSteps; ++t) {
    seen.push_back(carts.seen());
    const at::Tensor each = net->log_probs(seen.back());
    const at::Tensor drawn = at::multinomial(each.exp(), 1);
    pushes.push_back(drawn.squeeze(1));
    log_probs.push_back(each.gather(1, drawn).squeeze(1));
    const CartPoles::Pushed pushed = carts.push(pushes.back());
    came_out.push_back(pushed.seen);
    fell.push_back(pushed.fell);
    over.push_back(pushed.over);
  }
  Rollout rollout{carts.row(), at::stack(seen), at::stack(pushes), at::stack(log_probs), {}, {}};
  // A pole that fell is worth nothing more; one that was only stood long enough is.
  const at::Tensor values = net->value(rollout.seen);
  const at::Tensor deltas =
      1 + Rollout::kDiscount * net->value(at::stack(came_out)) * ~at::stack(fell) - values;
  std::vector<at::Tensor> advantages(seen.size());
  at::Tensor later = at::zeros({CartPoles::kCarts});
  for (std::size_t t = seen.size(); t-- > 0; later = advantages[t])
    advantages[t] = deltas[static_cast<std::int64_t>(t)] +
                    Rollout::kDiscount * Rollout::kLambda * later * ~over[t];
  rollout.advantages = at::stack(advantages);
  rollout.returns = rollout.advantages + values;
  return rollout;
}

// ppo_plain CHECKPOINT STEPS UPDATES: the plain loop of libtorch that examples/ppo is with one
// virtual worker.
#include "actor_critic.h"
#include "lockstep/optim.h"
#include "plain_loop.h"

static lockstep::Status train(const std::string& checkpoint, std::int64_t steps,
                              std::int64_t updates) {
  at::manual_seed(0);
  ActorCritic net;
  lockstep::Adam optimizer(net->parameters(), {.lr = 3e-3});
  at::Tensor carts = CartPoles::first_row();
  for (std::int64_t step = 0; step < steps; ++step) {
    at::manual_seed(plain::seed_of(step));
    const Rollout played = play(net, carts);
    carts = played.carts;
    const at::Tensor& gain = played.advantages;
    const at::Tensor scaled = (gain - gain.mean()) / (gain.std() + 1e-8);
    bool goes_on = true;
    for (std::int64_t update = 0; update < updates; ++update) {
      const at::Tensor each = net->log_probs(played.seen);
      const at::Tensor chosen = each.gather(2, played.pushes.unsqueeze(2)).squeeze(2);
      const at::Tensor change = chosen - played.log_probs, ratio = change.exp();
      goes_on = goes_on && (ratio - 1 - change).mean().item<double>() <= 0.02;
      if (!goes_on) {
        std::printf("nan\n");
        continue;
      }
      const at::Tensor policy_loss =
          -at::min(ratio * scaled, ratio.clamp(0.8, 1.2) * scaled).mean();
      const at::Tensor value_loss = (net->value(played.seen) - played.returns).square().mean();
      const at::Tensor entropy = -(each.exp() * each).sum(2).mean();
      const at::Tensor loss = policy_loss + 0.5 * value_loss - 0.01 * entropy;
      net->zero_grad();
      loss.backward();
      lockstep::clip_grad_norm_(net->parameters(), 0.5);
      optimizer.step();
      plain::print_loss(loss);
    }
  }
  return plain::compare(checkpoint, *net);
}

int main(int argc, char** argv) { return plain::run(argc, argv, train); }

// PPO (Schulman et al. 2017): a step plays eight carts for each virtual worker, from where the step
// before has left them, and learns from that in several updates. Kill what you like, in whichever
// of them it is.
//
//   lockstep run --standalone --nproc-per-node 3 build/release/examples/ppo
//
// The carts live on in a row of the state, and so does what has been played: made in the step's
// first update, by the policy as it was then, and read by all of them. To play it again in the
// later ones would need that policy too, which their updates have changed.
// Poles that are pushed at random stand for 25 steps. After 56 steps of the run, which are 115,000
// pushes and 4 s, the mean return is 475, of 500 that there are, and the run ends.
// With one virtual worker, losses and parameters are the plain loop's, bit for bit
// (tests/loops/ppo_plain.cpp).
#include <cstdio>

#include "actor_critic.h"
#include "lockstep/lockstep.h"

struct Settings {
  double rate = 3e-3, clip = 0.2;
  double most_kl = 0.02;  // beyond which a share learns no more from what it has played
  double goal = 475;      // mean return, of 500
};

static lockstep::Status train(lockstep::Context& context, const lockstep::RunOptions& options,
                              const Settings& settings) {
  at::manual_seed(options.seed);
  ActorCritic net;
  lockstep::Adam optimizer(net->parameters(), {.lr = settings.rate});

  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("net", *net));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  const at::Tensor nothing = at::zeros({Rollout::kSteps, CartPoles::kCarts});
  LOCKSTEP_TRY(state.add_carried("carts", CartPoles::first_row()));
  LOCKSTEP_TRY(state.add_carried("seen", at::stack({nothing, nothing, nothing, nothing}, 2)));
  LOCKSTEP_TRY(state.add_carried("pushes", nothing.to(at::kLong)));
  for (const char* name : {"log_probs", "advantages", "returns"})
    LOCKSTEP_TRY(state.add_carried(name, nothing));

  const auto loss = [&](lockstep::Share& share) -> at::Tensor {
    if (share.update() == 0) {
      const Rollout played = play(net, share.carried("carts"));
      share.carry("carts", played.carts);
      share.carry("seen", played.seen);
      share.carry("pushes", played.pushes);
      share.carry("log_probs", played.log_probs);
      share.carry("advantages", played.advantages);
      share.carry("returns", played.returns);
      // Of the last time that each pole has fallen.
      share.add("return", played.carts.select(1, 5).sum().item<double>(), CartPoles::kCarts);
    }
    const at::Tensor seen = share.carried("seen"), gain = share.carried("advantages");
    const at::Tensor each = net->log_probs(seen);
    const at::Tensor chosen = each.gather(2, share.carried("pushes").unsqueeze(2)).squeeze(2);
    const at::Tensor change = chosen - share.carried("log_probs"), ratio = change.exp();
    const double kl = (ratio - 1 - change).mean().item<double>();
    share.add("kl", kl);
    // It has gone far enough: the share takes no part, and where none does the update is left out.
    if (kl > settings.most_kl) return {};
    const at::Tensor scaled = (gain - gain.mean()) / (gain.std() + 1e-8);
    const at::Tensor clipped = ratio.clamp(1 - settings.clip, 1 + settings.clip) * scaled;
    const at::Tensor policy_loss = -at::min(ratio * scaled, clipped).mean();
    const at::Tensor value_loss = (net->value(seen) - share.carried("returns")).square().mean();
    const at::Tensor entropy = -(each.exp() * each).sum(2).mean();
    return policy_loss + 0.5 * value_loss - 0.01 * entropy;
  };

  lockstep::Step step(context, state, options);
  step.on_update([&](lockstep::UpdateEnd& end) {
    if (end.result.sums["return"].mean() >= settings.goal) end.end_run();
  });
  LOCKSTEP_TRY(step.open());
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    LOCKSTEP_ASSIGN(const lockstep::StepResult result,
                    step.run(std::vector<lockstep::Step::Update>(
                        static_cast<std::size_t>(options.updates_per_step), {optimizer, loss})));
    if (step.is_first() && (result.global_step + 1) % 10 == 0)
      std::printf("Step [%ld], mean return: %.1f\n", long{result.global_step} + 1,
                  result.sums["return"].mean());
  }
}

int main(int argc, char** argv) {
  Settings settings;
  lockstep::RunOptions options{.name = "ppo",
                               .output = "ppo-run",
                               .updates_per_step = 10,
                               .virtual_workers = 4,
                               .clip_grad_norm = 0.5,
                               .log_every = lockstep::Duration::steps(10)};
  lockstep::CommandLine line("ppo", "learns to keep a pole on a cart from falling");
  line.add("--updates", options.updates_per_step, "from what a step has played", {.least = 1});
  line.add("--lr", settings.rate, "Adam's learning rate");
  line.add("--most-kl", settings.most_kl, "a share learns on until its policy is as far away");
  line.add("--goal", settings.goal, "the run ends at this mean return (500 is the most)");
  lockstep::add_run_options(line, options);
  line.parse(argc, argv);
  options.identity = {{"lr", lockstep::identity_text(settings.rate)},
                      {"most_kl", lockstep::identity_text(settings.most_kl)}};

  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, train(*context, options, settings));
}

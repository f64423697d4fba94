// Blocks of docs/guide, to see that they compile. tools/check_docs looks that each is what the page
// shows; what surrounds it is what it takes for granted.
#include <torch/nn/functional/loss.h>

#include <algorithm>
#include <random>
#include <tuple>

#include "lockstep/lockstep.h"

namespace F = torch::nn::functional;

namespace guide {

using Data = std::shared_ptr<const lockstep::data::Dataset>;

std::tuple<at::Tensor, at::Tensor> network(const at::Tensor& inputs, const at::Tensor& h);

// sequences.md
lockstep::Status rows_of_a_loop(lockstep::Step& step, lockstep::TrainState& state,
                                lockstep::Optimizer& optimizer,
                                const lockstep::Step::Closure& loss) {
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    LOCKSTEP_ASSIGN(const at::Tensor h, state.carried("h"));
    if (step.global_step() % step.steps_per_epoch() == 0) h.zero_();
    LOCKSTEP_TRY(step.run(optimizer, loss));
  }
}

lockstep::Status rows_of_a_trainer(lockstep::Trainer& trainer, const Data& train_set) {
  trainer.add_carried("h", at::zeros({1, 8, 64}));
  trainer.loss([&](lockstep::Share& share) {
    const auto [scores, h] = network(share.batch().inputs, share.carried("h"));
    share.carry("h", h);
    return F::cross_entropy(scores, share.batch().targets);
  });
  return trainer.fit(train_set);
}

// reinforcement_learning.md
struct World {
  double place = 0, speed = 0;
  void advance(double push);
};
at::Tensor loss_of(const World& world);

lockstep::Step::Closure plays_an_object() {
  return [](lockstep::Share& share) {
    const at::Tensor row = share.carried("world");  // fp64, [2]
    World world{row[0].item<double>(), row[1].item<double>()};
    std::mt19937_64 random(share.seed());
    world.advance(std::normal_distribution<>()(random));
    share.carry("world", at::tensor({world.place, world.speed}, at::kDouble));
    return loss_of(world);
  };
}

// own_loop.md
lockstep::Status schedule_at_each_update(lockstep::Trainer& trainer, lockstep::Optimizer& optimizer,
                                         const Data& train_set) {
  lockstep::LambdaLR warmup(
      optimizer, [](std::int64_t t) { return std::min(1.0, static_cast<double>(t + 1) / 500); });
  trainer.schedule(warmup, lockstep::Per::kUpdate);
  return trainer.fit(train_set);
}

}  // namespace guide

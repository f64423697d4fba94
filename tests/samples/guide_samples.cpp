// Blocks of docs/guide, to see that they compile. tools/check_docs looks that each is what the page
// shows; what surrounds it is what it takes for granted.
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "lockstep/lockstep.h"

namespace F = torch::nn::functional;

namespace guide {

using Data = std::shared_ptr<const lockstep::data::Dataset>;

std::tuple<at::Tensor, at::Tensor> network(const at::Tensor& inputs, const at::Tensor& h);

// own_loop.md
lockstep::Status results_of_a_loop(lockstep::Step& step, lockstep::Optimizer& optimizer,
                                   const lockstep::Step::Closure& loss) {
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    LOCKSTEP_ASSIGN(const lockstep::StepResult result, step.run(optimizer, loss));
    if (step.is_first() && result.global_step % 100 == 0)
      std::printf("%ld: %.4f, norm %.3f\n", long{result.global_step}, result.loss(),
                  result.grad_norm().value_or(0));
  }
}

struct Episodes {
  double rewards;
  std::int64_t count;
};
struct Policy;
Episodes play(const Policy& policy, std::uint64_t seed);
at::Tensor loss_of(const Policy& policy, const Episodes& played);

lockstep::Status sums_of_a_loop(lockstep::Step& step, lockstep::Optimizer& optimizer,
                                const Policy& policy) {
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    LOCKSTEP_ASSIGN(const lockstep::StepResult result,
                    step.run(optimizer, [&](lockstep::Share& share) {
                      const Episodes played = play(policy, share.seed());
                      share.add("reward", played.rewards, played.count);  // sum and count
                      return loss_of(policy, played);
                    }));
    if (step.is_first()) std::printf("reward: %.2f\n", result.sums["reward"].mean());
  }
}

void best_by_a_sum(lockstep::Trainer& trainer) {
  trainer.best("reward", lockstep::BestMode::kMax);
  trainer.stop_when([](const lockstep::EpochEnd& end) { return end.sums["reward"].mean() > 450; });
}

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

lockstep::Status phases(lockstep::Step& step, lockstep::Optimizer& optimizer,
                        torch::nn::Sequential backbone, const lockstep::Step::Closure& loss) {
  if (step.global_step() == 2000) {
    for (at::Tensor& p : backbone->parameters()) p.requires_grad_(true);
    optimizer.reset_state();  // moments and counters as a new optimizer has them
    optimizer.set_lr(1e-4);
  }
  LOCKSTEP_TRY(step.run(optimizer, loss));
  return {};
}

at::Tensor split(const at::Tensor& points);

lockstep::Status with_room(lockstep::Step& step, lockstep::TrainState& state, std::int64_t most,
                           std::int64_t first) {
  // Room for all that there may ever be, and which of them there are.
  const at::Tensor points = at::zeros({most, 3}).requires_grad_();
  const at::Tensor used = at::arange(most) < first;
  lockstep::Adam optimizer({points}, {.lr = 1e-3});
  LOCKSTEP_TRY(state.add("scene", {{"points", points}, {"used", used}}));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  step.on_update([&](const lockstep::UpdateEnd& end) {
    if (end.global_step % 100 != 99) return;
    const at::Tensor places = at::nonzero(used.logical_not()).flatten();
    const at::Tensor born = split(points.index({used}));  // of the state and the generator alone
    const std::int64_t count = std::min(born.size(0), places.size(0));
    const at::Tensor rows = places.slice(0, 0, count);
    at::Tensor(points).index_put_({rows}, born.slice(0, 0, count));
    at::Tensor(used).index_fill_(0, rows, true);
  });
  return {};
}

lockstep::Status means_of_an_epoch(lockstep::Step& step, lockstep::TrainState& state,
                                   const Data& train_set, lockstep::Optimizer& optimizer,
                                   const lockstep::Step::Closure& loss) {
  at::Tensor epoch = at::zeros({2}, at::kDouble);  // sum and count
  LOCKSTEP_TRY(state.add("epoch", {{"nll", epoch}}));
  step.on_update([&](const lockstep::UpdateEnd& end) {
    const lockstep::Sum nll = end.result.sums["nll"];
    if (end.step == 0) epoch.zero_();
    epoch.add_(at::tensor({nll.sum, static_cast<double>(nll.count)}, at::kDouble));
  });
  LOCKSTEP_TRY(step.open(train_set));
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    LOCKSTEP_ASSIGN(const lockstep::StepResult result, step.run(optimizer, loss));
    if (step.is_first() && result.step + 1 == step.steps_per_epoch())
      std::printf("epoch %ld: %.4f\n", long{result.epoch}, (epoch[0] / epoch[1]).item<double>());
  }
}

lockstep::Status numbers_and_lists(lockstep::Step& step, lockstep::TrainState& state) {
  at::Tensor episodes = at::zeros({}, at::kLong);  // a counter
  std::vector<double> returns;                     // a list, of any length
  const auto save = [&] {
    std::string text;
    for (const double one : returns) text += lockstep::identity_text(one) + " ";
    return text;
  };
  const auto load = [&](const std::string& text) -> lockstep::Status {
    std::istringstream numbers(text);
    returns.assign(std::istream_iterator<double>(numbers), {});
    return {};
  };
  LOCKSTEP_TRY(state.add("counts", {{"episodes", episodes}}));
  LOCKSTEP_TRY(state.add({"returns", save, load}));
  step.on_update([&](const lockstep::UpdateEnd& end) {
    const lockstep::Sum ended = end.result.sums["return"];
    episodes.add_(ended.count);
    if (ended.count > 0) returns.push_back(ended.mean());
  });
  return step.open();
}

// reinforcement_learning.md
lockstep::Status plays_at_first(lockstep::Step& step, lockstep::Adam& optimizer,
                                const lockstep::Step::Closure& plays_and_learns) {
  constexpr std::int64_t kOnlyPlays = 100;
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    const bool learns = step.global_step() >= kOnlyPlays;
    optimizer.set_lr(learns ? 1e-3 : 0);
    if (step.global_step() == kOnlyPlays) optimizer.reset_state();
    LOCKSTEP_TRY(step.run(optimizer, plays_and_learns));
  }
}

// gans.md
lockstep::Status one_of_two(torch::nn::Sequential generator) {
  LOCKSTEP_TRY(lockstep::load_state_dict(*generator, "runs/gan", "generator"));
  return {};
}

}  // namespace guide

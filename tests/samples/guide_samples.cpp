// Blocks of docs/guide, to see that they compile. tools/check_docs looks that each is what the page
// shows; what surrounds it is what it takes for granted.
#include <ATen/core/grad_mode.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <cstdio>
#include <functional>
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
lockstep::Status carries_a_row(lockstep::Step& step, lockstep::TrainState& state,
                               lockstep::Optimizer& optimizer, std::int64_t layers,
                               std::int64_t rows, std::int64_t hidden) {
  LOCKSTEP_TRY(state.add_carried("h", at::zeros({layers, rows, hidden})));  // before open()
  LOCKSTEP_TRY(step.open());
  LOCKSTEP_TRY(step.run(optimizer, [&](lockstep::Share& share) {
    const auto [scores, h] = network(share.batch().inputs, share.carried("h"));
    share.carry("h", h);
    return F::cross_entropy(scores, share.batch().targets);
  }));
  return {};
}

lockstep::Status one_for_each_step(lockstep::Step& step, lockstep::SGD& discriminator_optimizer,
                                   lockstep::Adam& generator_optimizer,
                                   const lockstep::Step::Closure& discriminator_loss,
                                   const lockstep::Step::Closure& generator_loss) {
  if (step.global_step() % 2 == 0)
    LOCKSTEP_TRY(step.run(discriminator_optimizer, discriminator_loss));
  else
    LOCKSTEP_TRY(step.run(generator_optimizer, generator_loss));
  return {};
}

lockstep::Status by_the_number_of_shares(lockstep::Context& context,
                                         const lockstep::RunOptions& options,
                                         torch::nn::Sequential net) {
  LOCKSTEP_ASSIGN(const lockstep::RunSoFar so_far, lockstep::run_so_far(context, options));
  const double lr = 1e-3 * so_far.virtual_workers;  // and not world_size()
  const lockstep::SGD optimizer(net->parameters(), {.lr = lr});
  return optimizer.check();
}

void betas(torch::nn::Sequential net) {
  lockstep::Adam optimizer(net->parameters(), {.lr = 2e-4, .beta1 = 0.5, .beta2 = 0.999});
  optimizer.step();
}

double accuracy_of(torch::nn::Sequential net);

void evaluates_in_between(const lockstep::Step& step, torch::nn::Sequential net) {
  if (step.is_first() && step.global_step() % step.steps_per_epoch() == 0) {
    const at::NoGradGuard no_grad;
    net->eval();
    std::printf("accuracy: %.4f\n", accuracy_of(net));
    net->train();  // else its shares are computed in another mode than those of the others
  }
}

lockstep::Status writes_at_the_end(lockstep::Context& context, lockstep::TrainState& state,
                                   lockstep::RunOptions options, torch::nn::Sequential net) {
  options.files = {"net.pt"};  // found to be writable before the first step
  lockstep::Step step(context, state, options);
  step.on_finished([&] { return lockstep::save_pt("net.pt", *net); });
  return step.open();
}

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

// own_loop.md
struct Codebook {  // tensors of the train state
  at::Tensor codes, counts, totals;
};
at::Tensor nearest(const at::Tensor& vectors, const at::Tensor& codes);  // one-hot
at::Tensor encoded(const lockstep::Share& share);
at::Tensor loss_of(const at::Tensor& vectors, const at::Tensor& choice, const Codebook& book);

lockstep::Status follows_the_whole_batch(lockstep::Step& step, lockstep::TrainState& state,
                                         lockstep::Optimizer& optimizer, Codebook book) {
  LOCKSTEP_TRY(state.add_carried("counts", at::zeros_like(book.counts)));  // [codes]
  LOCKSTEP_TRY(state.add_carried("totals", at::zeros_like(book.totals)));  // [codes, width]
  step.on_update([&](const lockstep::UpdateEnd&) {
    book.counts.lerp_(state.carried("counts")->sum(0), 0.01);
    book.totals.lerp_(state.carried("totals")->sum(0), 0.01);
    book.codes.copy_(book.totals / (book.counts + 1e-5).unsqueeze(1));
  });
  LOCKSTEP_TRY(step.open());
  LOCKSTEP_TRY(step.run(optimizer, [&](lockstep::Share& share) {
    const at::Tensor vectors = encoded(share), choice = nearest(vectors.detach(), book.codes);
    share.carry("counts", choice.sum(0));
    share.carry("totals", choice.t().matmul(vectors.detach()));
    return loss_of(vectors, choice, book);
  }));
  return {};
}

// gans.md
using Network = std::function<at::Tensor(const at::Tensor&)>;
at::Tensor loss_against(const at::Tensor& scores, double what);

lockstep::Status generator_first(lockstep::Step& step, lockstep::TrainState& state,
                                 lockstep::Optimizer& g_optimizer, lockstep::Optimizer& d_optimizer,
                                 const Network& generator, const Network& discriminator,
                                 std::int64_t batch) {
  LOCKSTEP_TRY(state.add_carried("fakes", at::zeros({batch, 784})));
  const auto g_loss = [&](lockstep::Share& share) {
    const at::Tensor fakes = generator(at::randn({batch, 100}));
    share.carry("fakes", fakes);
    return loss_against(discriminator(fakes), 1);
  };
  const auto d_loss = [&](lockstep::Share& share) {
    return loss_against(discriminator(share.batch().inputs.flatten(1)), 1) +
           loss_against(discriminator(share.carried("fakes")), 0);
  };
  LOCKSTEP_TRY(step.run({{g_optimizer, g_loss}, {d_optimizer, d_loss}}));
  return {};
}

lockstep::Status one_of_two(torch::nn::Sequential generator) {
  LOCKSTEP_TRY(lockstep::load_state_dict(*generator, "runs/gan", "generator"));
  return {};
}

}  // namespace guide

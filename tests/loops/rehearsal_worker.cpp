// rehearsal_worker CASE RUN_DIR [REHEARSE]: a loop of Step's whose loss depends, or does not, on
// what it must not.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <signal.h>
#include <torch/nn/functional/embedding.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "come_and_go.h"
#include "lockstep/amp.h"
#include "lockstep/step.h"
#include "rehearsal_keeps.h"
#include "rehearsal_nets.h"
#include "worker_main.h"

namespace {

using lockstep::Share;
using lockstep::Status;
using lockstep::test::from_own_pool;
using lockstep::test::from_pool;
using lockstep::test::Net;
using lockstep::test::rollout;
using lockstep::test::Table;

struct Job {
  lockstep::Context& context;
  std::string name, output;
  std::optional<std::int64_t> rehearse;
  bool is(const char* wanted) const { return name == wanted; }
  bool warms_up() const { return name.starts_with("warms-up"); }
  // Long enough for somebody to come in.
  bool joined() const { return name.starts_with("joined"); }
  bool slow() const { return is("warms-up-slow") || joined(); }
  std::int64_t warm_up() const { return is("warms-up-slow") ? 60 : 3; }  // steps
};

// Of the second: fp32 tells no microseconds behind a machine's whole time.
double seconds_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return 1 + std::fmod(std::chrono::duration<double>(now).count(), 1);
}

// What a process keeps outside of the train state: the same in all that were there from the start.
struct Kept {
  int replay = 0, world = 0;
  double target = 1;
};
Kept& kept() {
  static Kept it;
  return it;
}

lockstep::TrainState::Text world_text() {
  const auto load = [](const std::string& text) {
    kept().world = std::stoi(text);
    return Status();
  };
  return {"world", [] { return std::to_string(kept().world); }, load};
}

at::Tensor& target() {
  static at::Tensor it = at::zeros({1});
  return it;
}

// A module's member, which the state does not have then.
void assign_anew(const Job& job, Net& net) {
  const at::NoGradGuard no_grad;
  if (job.is("assigns-weight")) net->spare->weight = net->spare->weight * 0.9;
  if (job.is("assigns-buffer")) net->count = net->count + 1;
  if (job.is("assigns-module")) net->idle = torch::nn::Dropout(0.1);
  if (job.is("assigns-trained")) net->last->bias = at::zeros({1}).requires_grad_();
}

// Between next() and run().
void play(const Job& job, Net& net, long step) {
  kept().target *= 1.01;
  ++kept().replay;
  if (job.is("joined-world")) net->count.fill_(++kept().world);
  if (job.is("joined-eval") && step == 2) net->eval();
  static bool began = false;
  if (!std::exchange(began, true)) std::printf("first step %ld\n", step);
}

// What a loss is multiplied by that has more than the state and its share.
double factor_of(const Job& job, const Share& share) {
  static int calls = 0;
  static std::mt19937 engine{7};
  static at::Generator generator = at::detail::createCPUGenerator(7);
  if (job.is("counter") || (job.is("counter-later") && share.global_step() > 4)) return ++calls;
  if (job.warms_up() && !job.is("warms-up-right")) return ++calls;
  if (job.name.starts_with("joined-target")) return kept().target;
  if (job.is("clock")) return seconds_now();
  if (job.is("rank")) return std::atof(std::getenv("RANK")) + 1;
  if (job.is("context-rank")) return job.context.rank() + 1;
  if (job.is("random-device")) return std::random_device{}();
  if (job.is("engine")) return static_cast<double>(engine());
  if (job.is("generator")) return at::rand({}, generator).item<double>();
  return 1;
}

at::Tensor loss_of(const Job& job, Net& net, Share& share, const at::Tensor& own_batch) {
  static int calls = 0;
  if (job.is("writes-text")) ++kept().world;
  if (job.warms_up() && share.global_step() < job.warm_up()) return {};
  if (job.is("joined-target-dies"))
    die_with_a_newcomer(job.context.rank(), {.rank = 2, .share = 2}, job.output + ".joined", share);
  if (job.is("joined-target-falls") && share.virtual_worker() == 4 &&
      kept().replay < share.global_step())
    ::kill(::getpid(), SIGKILL);  // a newcomer, in its last share
  if (job.is("joined-warm-up") && share.global_step() > 6 && share.global_step() < 40) return {};
  if (job.is("own-pool-later") && share.virtual_worker() == 2)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  // Of those that were there from the start alone.
  if (job.is("joined-alone") &&
      (job.context.rank() != 0 || kept().replay == share.global_step() + 1))
    die_with_a_newcomer(job.context.rank(), {.rank = 1, .share = 2}, job.output + ".joined", share);
  if (job.is("joined-target-sits") && share.virtual_worker() == 0 && share.global_step() > 0)
    return {};
  if (job.is("joined-replay") && kept().replay < 3) return {};
  const bool other_data = job.is("own-loader") || job.is("unused-data");
  at::Tensor inputs = other_data ? own_batch : share.batch().inputs;
  if (job.is("noise")) inputs = share.batch().inputs + own_batch;
  if (job.is("pool")) inputs = from_pool(inputs);
  if (job.is("own-pool") || (job.is("own-pool-later") && share.global_step() > 8))
    inputs = from_own_pool(share, inputs);
  if (job.is("sits-out-at-times") && calls++ >= 3) return {};
  if (job.is("rollout-second")) return (net(inputs) - rollout(net, share)).pow(2).mean();
  const at::Tensor loss = net(inputs).pow(2).mean() * factor_of(job, share);
  // The loss stays as it is, its gradient does not.
  double by = 0;
  if (job.is("gradient")) by = calls++;
  if (job.is("joined-gradient")) by = kept().target;
  if (job.is("gradient-by-mode")) by = net->idle->is_training() ? 0 : 1;
  if (by == 0) return loss;
  const at::Tensor more = net->last->weight.sum() * by;
  return loss + (more - more.detach());
}

struct CountingSgd : lockstep::SGD {
  CountingSgd(const Job& its_job, Net its_net)
      : SGD(its_net->parameters(), {.lr = 0.01, .momentum = 0.9}), job(its_job), net(its_net) {}
  void step() override {
    SGD::step();
    if (job.is("count-in-step")) net->count.add_(1);
  }
  const Job& job;
  Net net;
};

lockstep::RunOptions options_of(const Job& job) {
  lockstep::RunOptions options;
  options.output = job.output;
  options.epochs = job.slow() ? 8 : 2;
  options.batch_size = 2;
  options.virtual_workers = job.is("joined-target-falls") ? 5 : 3;
  options.rehearse = job.rehearse;
  if (job.name.ends_with("-second")) options.updates_per_step = 2;
  if (job.is("accumulates")) options.accumulation_steps = 2;
  if (job.is("ahead")) options.prefetch_threads = 2;
  if (job.is("skips")) options.on_nan = lockstep::OnNan::kSkip;
  return options;
}

Status loop(const Job& job, lockstep::Step& step, lockstep::Optimizer& optimizer, Net& net) {
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) break;
    const long before = step.global_step(), epoch = step.epoch();
    const long poked = job.is("pokes") ? 3 : job.is("pokes-at-4") ? 4 : -1;
    if (before == poked && job.context.rank() == 1) {
      const at::NoGradGuard no_grad;
      net->last->bias.add_(1);
    }
    if (job.is("count-before")) net->count.add_(1);
    if ((job.is("stays-in-eval") || job.is("evaluates-at-2")) && before == 2 && step.is_first())
      net->eval();
    // As a loader that is asked for each rank's next batch.
    const at::Tensor own =
        job.is("noise") ? at::randn({2, 2})
                        : at::full({2, 2}, job.is("own-loader") ? job.context.rank() + 0.5 : 0.5);
    if (job.is("gradient-by-mode") && before == 5 && step.is_first()) net->idle->eval();
    if (job.slow()) std::this_thread::sleep_for(std::chrono::milliseconds(job.joined() ? 25 : 10));
    if (job.joined()) play(job, net, before);
    if (job.is("lets-go") && before == 3) target() = at::cat({target(), at::ones({1})});
    if (job.name.starts_with("assigns") && before == 3) assign_anew(job, net);
    const auto loss = [&](Share& share) { return loss_of(job, net, share, own); };
    const auto right = [&](Share& share) {
      if (job.is("rollout-second")) rollout(net, share);
      return net(share.batch().inputs).pow(2).mean();
    };
    if (job.name.ends_with("-second"))
      LOCKSTEP_TRY(step.run({{optimizer, right}, {optimizer, loss}}));
    else
      LOCKSTEP_TRY(step.run(optimizer, loss));
    if (job.is("evaluates-at-2") && before == 2) net->train();
    if (job.is("joined-behind")) target().add_(1);
    if (step.global_step() != before || step.epoch() != epoch) std::printf("another step\n");
    if (job.is("count-after")) net->count.add_(1);
    if (job.is("draws")) std::printf("drawn %.9g\n", at::rand({}).item<double>());
  }
  std::printf("count %g\n", net->count.item<double>());
  return {};
}

Status train(const Job& job) {
  Net net;
  CountingSgd optimizer(job, net);
  lockstep::GradScaler scaler;
  LOCKSTEP_ASSIGN(auto set, lockstep::data::tensor_dataset(at::randn({60, 2}), at::randn({60, 1})));
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("net", *net));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  if (job.is("scaler")) LOCKSTEP_TRY(state.add("scaler", scaler));
  if (job.is("writes-text")) LOCKSTEP_TRY(state.add(world_text()));
  if (job.is("lets-go") || job.is("joined-behind"))
    LOCKSTEP_TRY(state.add("average", {{"bias", target()}, {"given", at::zeros({2})}}));
  lockstep::Step step(job.context, state, options_of(job));
  if (job.is("joined-hook"))  // as of a network that was never added
    step.on_update([&](const lockstep::UpdateEnd&) { net->count.fill_(kept().target); });
  LOCKSTEP_TRY(step.open(set));
  return loop(job, step, optimizer, net);
}

// Two optimizers in turn, by the loop's position or (as it must be) by the step.
Status alternate(const Job& job) {
  torch::nn::Linear a(2, 2), b(2, 2);
  lockstep::SGD of_a(a->parameters(), {.lr = 0.01}), of_b(b->parameters(), {.lr = 0.01});
  LOCKSTEP_ASSIGN(auto set,
                  lockstep::data::tensor_dataset(at::randn({900, 2}), at::randn({900, 2})));
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("a", *a));
  LOCKSTEP_TRY(state.add("b", *b));
  LOCKSTEP_TRY(state.add("of_a", of_a));
  LOCKSTEP_TRY(state.add("of_b", of_b));
  lockstep::RunOptions options;
  options.output = job.output;
  options.rehearse = job.rehearse;
  options.epochs = 1;
  options.batch_size = 1;
  options.virtual_workers = 3;
  options.checkpoint_every = lockstep::Duration::steps(33);
  options.log_every = lockstep::Duration::steps(0);
  lockstep::Step step(job.context, state, options);
  LOCKSTEP_TRY(step.open(set));
  const auto loss = [&](Share& share) {
    return (b(at::relu(a(share.batch().inputs))) - share.batch().targets).pow(2).mean();
  };
  const auto factor = [&] {
    static int calls = 0;
    return job.is("alternate-by-step-counter") ? ++calls : 1;
  };
  for (bool first = true;; first = !first) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    if (job.name.ends_with("-slow")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (job.name.starts_with("alternate-by-step") ? step.global_step() % 2 == 0 : first)
      LOCKSTEP_TRY(step.run(of_a, loss));
    else
      LOCKSTEP_TRY(step.run(of_b, [&](Share& share) { return -loss(share) * factor(); }));
  }
}

// Two networks and a part that both have, each with an optimizer of its own, by the step; each
// loss leaves out the other's network.
Status take_turns(const Job& job) {
  torch::nn::Linear a(2, 2), b(2, 2), shared(2, 2), idle(2, 2);
  const auto with_shared = [&](const torch::nn::Linear& net) {
    std::vector<at::Tensor> parameters = net->parameters();
    for (const at::Tensor& p : shared->parameters()) parameters.push_back(p);
    return parameters;
  };
  lockstep::SGD of_a(with_shared(a), {.lr = 0.01, .momentum = 0.5});
  lockstep::Adam of_b(with_shared(b), {.lr = 0.01});
  LOCKSTEP_ASSIGN(auto set,
                  lockstep::data::tensor_dataset(at::randn({180, 2}), at::randn({180, 2})));
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("a", *a));
  LOCKSTEP_TRY(state.add("b", *b));
  LOCKSTEP_TRY(state.add("shared", *shared));
  LOCKSTEP_TRY(state.add("idle", *idle));  // no optimizer has it
  LOCKSTEP_TRY(state.add("of_a", of_a));
  LOCKSTEP_TRY(state.add("of_b", of_b));
  lockstep::RunOptions options;
  options.output = job.output;
  options.epochs = 1;
  options.batch_size = 2;
  options.virtual_workers = 3;
  options.accumulation_steps = job.is("turns-accumulated") ? 2 : 1;
  options.find_unused_parameters = job.is("turns-unused");
  options.rehearse = job.rehearse;
  lockstep::Step step(job.context, state, options);
  LOCKSTEP_TRY(step.open(set));
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) break;
    if (job.is("turns-in-eval") && step.is_first()) a->eval();
    const bool first = job.is("turns-by-rank") && step.global_step() == 5
                           ? job.context.rank() == 0
                           : step.global_step() % 2 == 0;
    const auto loss = [&](Share& share) {
      // a backward that meets what is not this step's: PyTorch's GAN detaches nothing there
      const at::Tensor other = (first ? b : a)(share.batch().inputs).sum() * 0;
      const at::Tensor part = (first ? a : b)(shared(share.batch().inputs));
      const at::Tensor own = (part - share.batch().targets).pow(2).mean();
      return share.virtual_worker() == 1 ? own + other : own;
    };
    LOCKSTEP_TRY(first ? step.run(of_a, loss) : step.run(of_b, loss));
    for (const at::Tensor& p : {a->weight, b->weight, shared->weight})
      if (p.grad().defined()) std::printf("a gradient is left\n");
  }
  return {};
}

Status sparse(const Job& job) {
  Table table(job.is("sparse"));
  lockstep::SGD optimizer(table->parameters(), {.lr = 0.01});
  LOCKSTEP_ASSIGN(auto set, lockstep::data::tensor_dataset(at::ones({60}, at::kLong),
                                                           at::zeros({60}, at::kLong)));
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("table", *table));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  lockstep::Step step(job.context, state, options_of(job));
  LOCKSTEP_TRY(step.open(set));
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    LOCKSTEP_TRY(step.run(optimizer, [&](Share& share) {
      return torch::nn::functional::embedding(
                 share.batch().inputs, table->embedding->weight,
                 torch::nn::functional::EmbeddingFuncOptions().sparse(true))
          .sum();
    }));
  }
}

Status leave_late(const Job& job) {
  torch::nn::Linear net(2, 1);
  lockstep::SGD optimizer(net->parameters(), {.lr = 0.01});
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("net", *net));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  lockstep::RunOptions options;
  options.output = job.output;
  options.virtual_workers = 3;
  options.max_steps = 100000;
  lockstep::Step step(job.context, state, options);
  LOCKSTEP_TRY(step.open());
  LateLeaver leaver(job.context.rank(), job.output + "/leaver");
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    const bool odd = step.global_step() / 4 % 2 != 0;
    if (job.is("leaves-modes")) net->train(odd);
    if (job.is("leaves-flags")) net->bias.requires_grad_(odd);
    LOCKSTEP_ASSIGN(const lockstep::StepResult result, step.run(optimizer, [&](Share& share) {
      leaver.wake(share);
      return net(at::ones({2, 2})).pow(2).mean();
    }));
    if (!std::isfinite(result.loss())) return lockstep::Error{lockstep::ErrorKind::kInternal, "?"};
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  loops::run_worker([&](lockstep::Context& context) {
    const Job job{context, argv[1], argv[2],
                  argc > 3 ? std::optional<std::int64_t>(std::atol(argv[3])) : std::nullopt};
    if (job.name.starts_with("alternate")) return alternate(job);
    if (job.name.starts_with("leaves")) return leave_late(job);
    if (job.name.starts_with("turns")) return take_turns(job);
    return job.name.starts_with("sparse") ? sparse(job) : train(job);
  });
}

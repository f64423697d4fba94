// updates_worker CASE RUN_DIR: a loop of Step's whose steps have several updates, right or wrong in
// the way that CASE says.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/amp.h"
#include "lockstep/step.h"
#include "lockstep/trainer.h"

namespace {

using lockstep::Optimizer;
using lockstep::Share;
using lockstep::Status;
using lockstep::Step;

struct Job {
  lockstep::Context& context;
  std::string name, output;
  bool is(const char* wanted) const { return name == wanted; }
};

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("first", first);
    register_module("norm", norm);
    register_module("dropout", dropout);
    register_module("last", last);
  }
  at::Tensor forward(const at::Tensor& inputs) {
    return last(dropout(at::relu(norm(first(inputs)))));
  }
  torch::nn::Linear first{2, 4}, last{4, 1};
  torch::nn::BatchNorm1d norm{4};
  torch::nn::Dropout dropout{0.5};
};
TORCH_MODULE(Net);

// Draws from the default generator at the commit.
struct NoisySgd : lockstep::SGD {
  using SGD::SGD;
  void step() override {
    SGD::step();
    const at::NoGradGuard no_grad;
    for (const at::Tensor& p : parameters()) p.add_(at::randn_like(p), 1e-3);
  }
};

struct Nets {
  Net a, b;
  NoisySgd of_a{a->parameters(), {.lr = 0.01, .momentum = 0.5}};
  lockstep::Adam of_b{b->parameters(), {.lr = 0.01}};
  lockstep::GradScaler scaler;
};

at::Tensor loss_of(const Job& job, Nets& nets, Share& share) {
  const bool first = share.update() == 0;
  const std::int64_t step = share.global_step(), v = share.virtual_worker();
  if (job.is("ends") && first && step == 7 && v == 1) share.end_run();
  if (job.is("sits-out") && (step + share.update() + v) % 3 == 0) return {};
  if (job.is("left-out") && (step % 3 == 1 || share.update() == 2)) return {};
  const at::Tensor& inputs = share.batch().inputs;
  if (job.is("in-place") && first) inputs.mul_(2);
  at::Tensor loss = ((first ? nets.a : nets.b)(inputs)-share.batch().targets).pow(2).mean();
  if (job.is("noise")) {
    at::manual_seed(share.seed());
    loss = loss * at::rand({});
    if (!first) loss = loss + (nets.a(inputs).mean() * 0);
  }
  if (job.is("both") || job.name.ends_with("-by-rank"))
    loss = loss + (first ? nets.b : nets.a)(inputs).mean();
  if (job.name.starts_with("nan") && !first && step == 4 && v == 1)
    loss = loss * std::numeric_limits<double>::quiet_NaN();
  return loss;
}

std::vector<Step::Update> updates_of(const Job& job, Nets& nets, const Step& step,
                                     const Step::Closure& loss) {
  const bool other = job.context.rank() == 1 && step.global_step() == 3;
  lockstep::Optimizers both{&nets.of_a, &nets.of_b};
  if (job.is("order-by-rank") && other) both = {&nets.of_b, &nets.of_a};
  if (job.is("both") || job.is("order-by-rank")) return {{both, loss}, {both, loss}, {both, loss}};
  if (job.is("list-by-rank") && other)
    return {{nets.of_a, loss}, {nets.of_a, loss}, {nets.of_b, loss}};
  if (job.is("too-few")) return {{nets.of_a, loss}, {nets.of_b, loss}};
  if (job.is("twice")) return {{{&nets.of_a, &nets.of_a}, loss}};
  if (job.is("none")) return {{lockstep::Optimizers({}), loss}};
  if (job.is("no-loss")) return {{nets.of_a, nullptr}};
  return {{nets.of_a, loss}, {nets.of_b, loss}, {nets.of_b, loss}};
}

lockstep::RunOptions options_of(const Job& job) {
  lockstep::RunOptions options;
  options.output = job.output;
  options.epochs = 2;
  options.batch_size = 2;
  options.virtual_workers = 4;
  options.updates_per_step = 3;
  options.checkpoint_every = lockstep::Duration::steps(4);
  options.log_every = lockstep::Duration::steps(5);
  if (job.is("accumulates")) options.accumulation_steps = 2;
  if (job.is("ahead")) options.prefetch_threads = 2;
  if (job.is("both")) options.clip_grad_norm = 0.01;
  if (job.is("nan-skip")) options.on_nan = lockstep::OnNan::kSkip;
  if (job.is("nan-stop")) options.on_nan = lockstep::OnNan::kStop;
  return options;
}

Status train(const Job& job) {
  Nets nets;
  std::atomic<std::int64_t> fetched = 0;
  LOCKSTEP_ASSIGN(auto set, lockstep::data::tensor_dataset(
                                at::randn({96, 2}), at::randn({96, 1}),
                                [&](lockstep::data::Batch batch, const lockstep::data::Pass&) {
                                  ++fetched;
                                  return batch;
                                }));
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("a", *nets.a));
  LOCKSTEP_TRY(state.add("b", *nets.b));
  LOCKSTEP_TRY(state.add("of_a", nets.of_a));
  LOCKSTEP_TRY(state.add("of_b", nets.of_b));
  if (job.is("scaler")) LOCKSTEP_TRY(state.add("scaler", nets.scaler));
  if (job.is("librarys-name")) LOCKSTEP_TRY(state.add("lockstep.step", {{"x", at::zeros({1})}}));
  Step step(job.context, state, options_of(job));
  LOCKSTEP_TRY(step.open(set));
  const auto loss = [&](Share& share) { return loss_of(job, nets, share); };
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) break;
    if (job.is("slow")) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    LOCKSTEP_TRY(job.is("one") ? step.run(nets.of_a, loss)
                               : step.run(updates_of(job, nets, step, loss)));
  }
  std::printf("fetched %ld\n", long{fetched.load()});
  return {};
}

Status trainer(const Job& job) {
  Net net;
  lockstep::SGD optimizer(net->parameters(), {.lr = 0.01});
  LOCKSTEP_ASSIGN(auto set, lockstep::data::tensor_dataset(at::randn({60, 2}), at::randn({60, 1})));
  lockstep::Trainer trainer(job.context, *net, optimizer, options_of(job));
  trainer.loss([&](const lockstep::data::Batch& batch) { return net(batch.inputs).mean(); });
  return trainer.fit(set);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  at::manual_seed(0);
  const Job job{*context, argv[1], argv[2]};
  lockstep::exit_with(*context, job.is("trainer") ? trainer(job) : train(job));
}

// unseen_worker CASE RUN_DIR: a loop of Step's with what no loss, gradient or later state shows: in
// buffers, in rows, in where the run ends; or long after somebody has come in.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <thread>

#include "lockstep/step.h"
#include "support/held_steps.h"
#include "worker_main.h"

namespace {

using lockstep::Share;
using lockstep::Status;

struct Job {
  lockstep::Context& context;
  std::string name, output;
  bool is(const char* wanted) const { return name == wanted; }
  bool slow() const { return is("momentum") || is("ends") || is("epochs") || is("pool"); }
};

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("in", in);
    register_module("norm", norm);
    register_module("out", out);
    mean = register_buffer("mean", at::zeros({4}));
  }
  at::Tensor forward(const at::Tensor& h) { return out(at::relu(norm(h))); }
  torch::nn::Linear in{2, 4}, out{4, 1};
  torch::nn::BatchNorm1d norm{4};
  at::Tensor mean;
};
TORCH_MODULE(Net);

// A moving average of what comes in, kept in a member, by call or by virtual worker, or right.
void average(const Job& job, Net& net, const Share& share, const at::Tensor& h) {
  static std::map<std::int64_t, at::Tensor> kept;
  static double calls = 0;
  const at::NoGradGuard no_grad;
  const at::Tensor now = h.mean(0);
  if (job.is("calls")) {
    net->mean.lerp_(now, 1 / ++calls);
  } else if (job.is("shadow") || job.is("own-shadow")) {
    at::Tensor& shadow = kept[job.is("shadow") ? 0 : share.virtual_worker()];
    shadow = shadow.defined() ? shadow * 0.9 + now * 0.1 : now * 0.1;
    net->mean.copy_(shadow);
  } else {
    net->mean.mul_(0.9).add_(now, 0.1);
  }
}

at::Tensor loss_of(const Job& job, Net& net, Share& share) {
  const at::Tensor inputs = share.batch().inputs;
  const at::Tensor h = net->in(inputs) + share.carried("h") * 0.1;
  average(job, net, share, h);
  share.carry("h", at::tanh(h.mean(0)));
  if (job.name.ends_with("sits-out") && (share.global_step() + share.virtual_worker()) % 2 == 0)
    return {};
  return (net(h) - share.batch().targets).pow(2).mean();
}

// A pool of each virtual worker, in a member of the program's, that matters once it is full.
double pool(const Share& share) {
  static std::map<std::int64_t, int> kept;
  return ++kept[share.virtual_worker()] > 310 ? 2 : 1;
}

lockstep::RunOptions options_of(const Job& job) {
  lockstep::RunOptions options;
  options.output = job.output;
  options.epochs = job.is("epochs") ? 9 : job.is("pool") ? 12 : 4;
  options.batch_size = 2;
  options.virtual_workers = 3;
  options.log_every = lockstep::Duration::steps(0);
  if (job.is("accumulates")) options.accumulation_steps = 2;
  if (job.is("updates")) options.updates_per_step = 2;
  return options;
}

// Between next() and run(). Step 21 is neither an early one nor one of a checkpoint.
Status write(const Job& job, const lockstep::TrainState& state, const lockstep::Step& step,
             Net& net) {
  const at::NoGradGuard no_grad;
  const std::int64_t rank = job.context.rank(), at = step.global_step();
  LOCKSTEP_ASSIGN(at::Tensor h, state.carried("h"));
  if (job.is("writes") && at % 2 == 0) h.mul_(0.5);
  if (job.is("writes") && at % 3 == 0) net->mean.zero_();
  if (job.is("puts-back") && rank == 0) {
    const at::Tensor before = net->mean.clone();
    net->mean.zero_();
    net->mean.copy_(before);
  }
  if (job.is("momentum") && at % 5 == 0)
    net->norm->options.momentum(*net->norm->options.momentum() * 0.7);
  if (at != 21) return {};
  if (job.is("writes-buffer-in-1") && rank == 1) net->mean.zero_();
  if (job.is("writes-buffer-in-0") && rank == 0) net->mean.zero_();
  if (job.is("writes-by-rank")) net->mean.fill_(rank);
  if (job.is("writes-rows-in-1") && rank == 1) h.zero_();
  return {};
}

Status train(const Job& job) {
  Net net;
  lockstep::Adam optimizer(net->parameters(), {.lr = 0.01});
  LOCKSTEP_ASSIGN(auto set,
                  lockstep::data::tensor_dataset(at::randn({240, 2}), at::randn({240, 1})));
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("net", *net));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  LOCKSTEP_TRY(state.add_carried("h", at::zeros({4})));
  lockstep::Step step(job.context, state, options_of(job));
  if (job.is("writes-in-hook"))
    step.on_update([&](const lockstep::UpdateEnd& end) {
      if (end.global_step == 20 && job.context.rank() == 1) net->mean.zero_();
    });
  LOCKSTEP_TRY(step.open(set));
  std::int64_t rounds = 0;
  const auto loss = [&](Share& share) {
    const std::int64_t steps = job.is("ends") ? rounds : share.global_step() + 1;
    if (job.name.starts_with("ends") && steps >= 25) share.end_run();
    const at::Tensor now = loss_of(job, net, share);
    if (job.is("other-build")) return now * 1.5;
    if (job.is("pool")) return now * pool(share);
    return job.is("epochs") && rounds > 300 ? now * 2 : now;
  };
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    ++rounds;
    lockstep::test::hold_step(job.output, step.global_step());
    if (job.slow())
      std::this_thread::sleep_for(std::chrono::milliseconds(job.is("ends") ? 40 : 10));
    LOCKSTEP_TRY(write(job, state, step, net));
    if (job.is("updates"))
      LOCKSTEP_TRY(step.run({{optimizer, loss}, {optimizer, loss}}));
    else
      LOCKSTEP_TRY(step.run(optimizer, loss));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  loops::run_worker([&](lockstep::Context& context) { return train({context, argv[1], argv[2]}); });
}

// horovod_worker CASE RUN_DIR: one rank of a test of lockstep/horovod.h, right or wrong in the way
// that CASE says. Values have closed forms, so each checks itself.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <signal.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include "lockstep/horovod.h"

namespace {

using lockstep::Error;
using lockstep::ErrorKind;
using lockstep::Status;
using lockstep::horovod::DistributedOptimizer;
using lockstep::horovod::Horovod;

Status expect(const char* what, double value, double wanted) {
  if (value == wanted) return {};
  return Error{ErrorKind::kInternal, std::string(what) + ": wanted " + std::to_string(wanted) +
                                         ", got " + std::to_string(value)};
}

torch::nn::Linear one_weight(double value) {
  torch::nn::Linear net(torch::nn::LinearOptions(1, 1).bias(false));
  const at::NoGradGuard no_grad;
  net->weight.fill_(value);
  return net;
}

// loss = factor * weight, so the gradient is the factor.
at::Tensor loss(torch::nn::Linear net, double factor) { return net->weight.sum() * factor; }

// ---- a fixed group ----

Status check_group(Horovod& hvd, torch::nn::Linear net, lockstep::SGD& sgd) {
  const int last = hvd.size() - 1;
  LOCKSTEP_TRY(hvd.broadcast_parameters(*net, last));
  LOCKSTEP_TRY(expect("root's weight", net->weight.item<double>(), last));
  LOCKSTEP_TRY(hvd.broadcast_optimizer_state(sgd, last));
  LOCKSTEP_TRY(expect("root's rate", sgd.lr(), last + 1));
  if (hvd.step() != nullptr || hvd.state() != nullptr || hvd.group() == nullptr)
    return Error{ErrorKind::kInternal, "the group's form has a step, or no group"};
  return hvd.group()->barrier();
}

Status fixed(lockstep::Context& context, const std::string& name, const std::string& output) {
  LOCKSTEP_ASSIGN(auto hvd,
                  lockstep::horovod::init(context, lockstep::ProcessGroupOptions{output}));
  const int rank = hvd.rank(), size = hvd.size();
  LOCKSTEP_TRY(expect("rank", rank, context.rank()));
  LOCKSTEP_TRY(expect("size", size, context.world_size()));
  LOCKSTEP_TRY(expect("local rank", hvd.local_rank(), context.local_rank()));
  auto net = one_weight(rank);
  lockstep::SGD sgd(net->parameters(), {.lr = rank + 1.0});
  if (name == "unknown") DistributedOptimizer(hvd, sgd, *net);
  LOCKSTEP_TRY(check_group(hvd, net, sgd));
  DistributedOptimizer optimizer(hvd, sgd, *net);
  if (name == "closure") return optimizer.step([&](auto&) { return loss(net, 1); });
  const double mean = (size + 1) / 2.0;
  double weight = size - 1;
  for (int step = 0; step < 10; ++step) {
    optimizer.zero_grad();
    if (name == "death" && step == 5 && rank == 1) ::raise(SIGKILL);
    loss(net, rank + 1).backward();
    LOCKSTEP_TRY(expect("mean of the gradients", net->weight.grad().item<double>(), mean));
    if (step == 3) {  // not zeroed: it goes on from the mean
      loss(net, rank + 1).backward();
      LOCKSTEP_TRY(expect("two backwards", net->weight.grad().item<double>(), 2 * mean));
    }
    if (name == "adds-late" && step == 5) net->register_parameter("late", at::zeros({1}));
    LOCKSTEP_TRY(optimizer.step());
    weight -= size * mean * (step == 3 ? 2 : 1);
    LOCKSTEP_TRY(expect("weight", net->weight.item<double>(), weight));
  }
  return {};
}

// A loop that catches the failure and goes on is told again.
Status fixed_caught(lockstep::Context& context, const std::string& output) {
  LOCKSTEP_ASSIGN(auto hvd,
                  lockstep::horovod::init(context, lockstep::ProcessGroupOptions{output}));
  auto net = one_weight(0);
  lockstep::SGD sgd(net->parameters(), {.lr = 1});
  LOCKSTEP_TRY(hvd.broadcast_parameters(*net));
  DistributedOptimizer optimizer(hvd, sgd, *net);
  if (hvd.rank() == 1) ::raise(SIGKILL);
  const Status failed = lockstep::catch_errors([&]() -> Status {
    loss(net, 1).backward();
    return {};
  });
  if (failed.ok()) return Error{ErrorKind::kInternal, "a backward without rank 1"};
  Status stepped = optimizer.step();
  if (stepped.ok()) return Error{ErrorKind::kInternal, "a step after a failed backward"};
  return stepped;
}

// ---- a run ----

Status elastic(lockstep::Context& context, const std::string& name, const std::string& output) {
  lockstep::RunOptions options;
  options.output = output;
  options.batch_size = 1;
  options.epochs = 5;
  options.virtual_workers = 4;
  LOCKSTEP_ASSIGN(auto hvd, lockstep::horovod::init(context, options));
  LOCKSTEP_TRY(expect("size", hvd.size(), 4));
  auto net = one_weight(name == "different" ? context.rank() : 1);
  lockstep::SGD sgd(net->parameters(), {.lr = 0.1});
  LOCKSTEP_TRY(hvd.broadcast_parameters(*net));
  LOCKSTEP_TRY(hvd.broadcast_optimizer_state(sgd));
  lockstep::StepLR scheduler(sgd, 2, 0.5);
  LOCKSTEP_TRY(hvd.state()->add("scheduler", scheduler));
  DistributedOptimizer optimizer(hvd, sgd, *net);
  if (hvd.step() == nullptr || hvd.group() != nullptr)
    return Error{ErrorKind::kInternal, "a run has a group, or no step"};
  LOCKSTEP_ASSIGN(auto data, lockstep::data::tensor_dataset(at::ones({16, 1}), at::ones({16})));
  LOCKSTEP_TRY(hvd.step()->open(data));
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, hvd.step()->next());
    if (!more) return {};
    if (const lockstep::Step& step = *hvd.step();
        step.global_step() > 0 && step.global_step() % step.steps_per_epoch() == 0)
      scheduler.step();
    LOCKSTEP_TRY(optimizer.step([&](lockstep::Share& share) {
      if (hvd.rank() != share.virtual_worker()) throw std::logic_error("rank() is not v");
      return loss(net, 0.3 * (hvd.rank() + 1) / hvd.size());
    }));
    if (name == "bare") LOCKSTEP_TRY(optimizer.step());
  }
}

Status run_case(lockstep::Context& context, const std::string& name, const std::string& output) {
  for (const char* each : {"elastic", "different", "bare"})
    if (name == each) return elastic(context, name, output);
  if (name == "caught") return fixed_caught(context, output);
  return fixed(context, name, output);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context,
                      lockstep::catch_errors([&] { return run_case(*context, argv[1], argv[2]); }));
}

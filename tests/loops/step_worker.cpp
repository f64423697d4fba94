// step_worker CASE RUN_DIR: a loop of Step's, right or wrong in the way that CASE says.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <signal.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "lockstep/step.h"
#include "support/until.h"

namespace {

using lockstep::Status;
using lockstep::Step;

struct Job {
  lockstep::Context& context;
  std::string name, output;
  bool is(const char* wanted) const { return name == wanted; }
  bool draws() const { return name.starts_with("draws"); }
  bool accumulates() const { return name.starts_with("accumulates"); }
  void wait_for(const char* file) const {
    lockstep::test::until([&] { return std::filesystem::exists(output + "/" + file); });
  }
};

// Random, and the bias is used by a share's first batch alone.
at::Tensor loss_of_part(lockstep::Share& share, torch::nn::Linear& model) {
  const at::Tensor inputs = share.batch().inputs;
  const at::Tensor noisy = (inputs * at::rand_like(inputs)).matmul(model->weight.t()).sum();
  return share.micro_batch() == 0 ? noisy + model->bias.sum() : noisy;
}

// PyTorch's habits: what does not belong into a closure.
at::Tensor with_habit(const Job& job, const at::Tensor& loss, lockstep::SGD& optimizer) {
  if (job.is("closure-zero-grad")) optimizer.zero_grad();
  if (job.is("closure-step")) optimizer.step();
  if (job.is("closure-clips")) lockstep::clip_grad_norm_(optimizer.parameters(), 0.1);
  if (job.is("closure-scales")) return lockstep::GradScaler().scale(loss);
  if (job.is("closure-backward")) loss.backward();
  const at::NoGradGuard no_grad;
  // As torch::optim's do; autograd has its own words for it.
  if (job.is("closure-writes")) at::Tensor(optimizer.parameters()[0]).mul_(0.5);
  if (job.is("closure-writes-data")) optimizer.parameters()[1].data().add_(1);
  if (job.is("closure-writes-moments")) optimizer.state().front().second.add_(1);
  return loss;
}

// As a forward pass of averaged weights: what it writes it puts back.
void look_elsewhere(torch::nn::Linear& model, const at::Tensor& inputs) {
  const at::NoGradGuard no_grad;
  const at::Tensor weight = model->weight.clone();
  model->weight.mul_(0.5);
  model->forward(inputs);
  model->weight.copy_(weight);
}

Status loop(const Job& job, Step& step, lockstep::SGD& optimizer,
            std::optional<lockstep::StepLR>& scheduler, torch::nn::Linear& model) {
  const auto loss = [&](lockstep::Share& share) {
    if (job.is("throws") && share.global_step() == 5) throw std::runtime_error("no such class");
    if (job.is("crashes") && share.global_step() == 5) ::raise(SIGSEGV);
    if (job.is("ends") && share.global_step() == 7 && share.virtual_worker() == 1) share.end_run();
    if (job.is("puts-back")) look_elsewhere(model, share.batch().inputs);
    if (job.accumulates()) return loss_of_part(share, model);
    if (job.name.starts_with("unused")) return share.batch().inputs.matmul(model->weight.t()).sum();
    if (job.is("unreduced")) return model->forward(share.batch().inputs).expand({2, 1});
    const at::Tensor sum = model->forward(share.batch().inputs).sum();
    if (job.is("detached")) return sum.detach();
    if (job.name.starts_with("closure-")) return with_habit(job, sum, optimizer);
    if (share.global_step() != 4 || share.virtual_worker() != 1) return sum;
    if (job.name.starts_with("nan")) return sum * std::numeric_limits<double>::quiet_NaN();
    // The loss stays as it is, its derivative by the weight is 0 / 0.
    return job.name.starts_with("bad-gradient") ? sum + (model->weight * 0).sqrt().sum() : sum;
  };
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) return {};
    if (job.is("returns") && step.global_step() == 7) return {};
    if (job.is("next-twice")) LOCKSTEP_TRY(step.next());
    if ((job.is("rate-by-rank") && step.global_step() == 5) || job.is("rate-by-rank-at-first"))
      optimizer.set_lr(0.01 * (job.context.rank() + 1));
    if (job.is("pokes") && step.global_step() == 15 && job.context.rank() == 1) {
      const at::NoGradGuard no_grad;
      model->weight.mul_(1.5);
    }
    if (job.is("adds-late") && step.global_step() == 4)
      model->register_parameter("late", at::zeros({1}));
    if (job.is("frozen-late") && step.global_step() == 4) model->bias.set_requires_grad(false);
    if (job.is("no-update")) optimizer.set_lr(step.global_step() == 4 ? 0 : 0.1);
    if (scheduler && step.global_step() > 0 && step.global_step() % step.steps_per_epoch() == 0)
      scheduler->step();
    if (job.is("says") && step.is_first()) {
      std::printf("before step %ld\n", long{step.global_step()});
      std::fflush(stdout);
    }
    if (step.global_step() == 31) job.wait_for("checkpoints/step-00000030");
    if (job.is("slow")) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    LOCKSTEP_TRY(step.run(optimizer, loss));
    if (job.is("run-twice")) LOCKSTEP_TRY(step.run(optimizer, loss));
  }
}

// One step from zero at rate 1, of two virtual workers: 0 has samples 0 and 2, and 2 is damaged: 3
// stands in for it.
// Prints what becomes of the weight.
Status short_share(const Job& job) {
  torch::nn::Linear model(torch::nn::LinearOptions(1, 1).bias(false));
  model->weight.detach().zero_();
  lockstep::SGD optimizer(model->parameters(), {.lr = 1});
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("model", *model));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  lockstep::RunOptions options;
  options.output = job.output;
  options.shuffle = lockstep::data::Shuffle::kSequential;
  options.epochs = 1;
  options.batch_size = options.virtual_workers = 2;
  const auto left = [](lockstep::data::Batch batch, const lockstep::data::Pass&) {
    const auto damaged = std::find(batch.ids.begin(), batch.ids.end(), 2);
    if (damaged == batch.ids.end()) return batch;
    batch.ids.erase(damaged);
    batch.inputs = batch.inputs.slice(0, 0, 1);
    batch.targets = batch.targets.slice(0, 0, 1);
    return batch;
  };
  LOCKSTEP_ASSIGN(auto data,
                  lockstep::data::tensor_dataset(
                      at::tensor({8.0F, 2.0F, 1000.0F, 6.0F}).view({4, 1}), at::ones({4}), left));
  Step step(job.context, state, options);
  LOCKSTEP_TRY(step.open(data));
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) break;
    LOCKSTEP_TRY(step.run(optimizer, [&](lockstep::Share& share) {
      return model->forward(share.batch().inputs).mean();
    }));
  }
  std::printf("weight %g\n", model->weight.item<double>());
  return {};
}

// What depends on the rank: a weight, a tensor of one's own, a text, or the weight that is loaded.
Status add_of_rank(const Job& job, lockstep::TrainState& state, torch::nn::Linear& model) {
  const int rank = job.context.rank();
  if (job.is("weight-by-rank")) model->weight.detach().fill_(rank);
  if (job.is("tensor-by-rank")) return state.add("own", {{"own", at::full({2}, rank)}});
  return state.add(lockstep::TrainState::Text{
      "rank", [&job, rank] { return job.is("text-by-rank") ? std::to_string(rank) : ""; },
      [&model, rank](const std::string&) {
        model->weight.detach().fill_(rank);
        return Status();
      }});
}

Status train(const Job& job) {
  torch::nn::Linear model(2, 1);
  if (job.is("frozen-by-rank") && job.context.rank() == 1) model->bias.set_requires_grad(false);
  lockstep::SGD optimizer(model->parameters(),
                          {.lr = 0.1, .momentum = job.is("bad-momentum") ? -1.0 : 0.0});
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("model", *model));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  std::optional<lockstep::StepLR> scheduler;
  if (job.name.starts_with("schedule")) scheduler.emplace(optimizer, 2, 0.5);
  if (job.is("schedule")) LOCKSTEP_TRY(state.add("scheduler", *scheduler));
  if (job.name.ends_with("-by-rank")) LOCKSTEP_TRY(add_of_rank(job, state, model));
  lockstep::RunOptions options;
  options.output = job.output;
  options.batch_size = 1;
  options.epochs = 40;
  options.checkpoint_every = lockstep::Duration::steps(30);
  options.find_unused_parameters = job.is("unused-allowed");
  if (job.name.ends_with("-skip")) options.on_nan = lockstep::OnNan::kSkip;
  if (job.name.ends_with("-stop")) options.on_nan = lockstep::OnNan::kStop;
  if (job.accumulates()) {  // an epoch's 3 batches of each virtual worker make steps of 2 and 1
    options.virtual_workers = 3;
    options.accumulation_steps = job.is("accumulates-3") ? 3 : 2;
    options.prefetch_threads = job.is("accumulates-ahead") ? 2 : 0;
  }
  if (job.draws()) options.virtual_workers = 3;
  if (job.is("draws-ahead")) options.prefetch_threads = 2;
  const auto noisy = [&](lockstep::data::Batch batch, const lockstep::data::Pass&) {
    batch.inputs = batch.inputs + at::randn_like(batch.inputs);
    return batch;
  };
  LOCKSTEP_ASSIGN(auto data,
                  job.draws()
                      ? lockstep::data::tensor_dataset(at::ones({8, 2}), at::ones({8}), noisy)
                      : lockstep::data::tensor_dataset(at::ones({8, 2}), at::ones({8})));
  Step step(job.context, state, options);
  step.on_finished([&] {
    std::printf("finished in rank %d\n", job.context.rank());
    return job.is("export-fails")
               ? Status(lockstep::Error{lockstep::ErrorKind::kDisk, "no room for the export"})
               : Status();
  });
  LOCKSTEP_TRY(step.open(data));
  LOCKSTEP_TRY(loop(job, step, optimizer, scheduler, model));
  if (job.is("second-run")) return Step(job.context, state, options).open(data);
  std::printf("after the run\n");
  if (job.is("long-after")) std::this_thread::sleep_for(std::chrono::seconds(2));
  if (job.is("fails-after"))
    return lockstep::Error{lockstep::ErrorKind::kInternal, "the export went wrong"};
  std::printf("the end\n");
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  if (argv[1] == std::string("second-init"))
    if (auto second = lockstep::init(); !second.ok()) lockstep::exit_with(*context, second.error());
  at::manual_seed(0);
  const Job job{*context, argv[1], argv[2]};
  lockstep::exit_with(*context, job.is("short-share") ? short_share(job) : train(job));
}

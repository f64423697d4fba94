// phases_worker CASE RUN_DIR [DOZENS]: a loop of Step's (or a Trainer) that freezes and unfreezes,
// right or wrong in the way that CASE says. V = 4, so many dozen steps (2) without data: what a
// share is made of follows from its number and the step's. "plain-..." is a plain loop of libtorch,
// for one worker.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "lockstep/amp.h"
#include "lockstep/checkpoint.h"
#include "lockstep/step.h"
#include "lockstep/trainer.h"
#include "support/held_steps.h"
#include "support/until.h"
#include "worker_main.h"

namespace {

using lockstep::Share;
using lockstep::Status;
using lockstep::Step;

constexpr std::int64_t kRound = 24;                                 // steps
constexpr std::int64_t kFrozen = 8, kHeadToo = 10, kUnfrozen = 14;  // the phases' first steps in it

struct Job {
  lockstep::Context& context;
  std::string name, output;
  std::int64_t steps;
  bool is(const char* wanted) const { return name == wanted; }
  bool begins(const char* wanted) const { return name.starts_with(wanted); }
};

void set_gradients(torch::nn::Module& module, bool on) {
  for (const at::Tensor& p : module.parameters()) p.set_requires_grad(on);
}

struct NetImpl : torch::nn::Module {
  NetImpl() {
    register_module("body", body);
    register_module("norm", norm);
    register_module("head", head);
  }
  at::Tensor forward(const at::Tensor& inputs) { return head(at::relu(norm(body(inputs)))); }
  torch::nn::Linear body{3, 4}, head{4, 1};
  torch::nn::BatchNorm1d norm{4};
};
TORCH_MODULE(Net);

std::vector<at::Tensor> together(std::vector<at::Tensor> some, const at::Tensor& more) {
  some.push_back(more);
  return some;
}

struct Parts {
  explicit Parts(const Job& job) {
    if (job.begins("later")) set_gradients(*net->body, false);
    if (job.is("outside")) set_gradients(*critic, false);
    if (job.begins("masters")) masters.emplace(*net, at::kBFloat16);
    optimizer.emplace(together(masters ? masters->parameters() : net->parameters(), shift),
                      lockstep::AdamOptions{.lr = 0.05});
  }
  Net net, critic;
  at::Tensor shift = at::zeros({1}).requires_grad_();
  std::optional<lockstep::MasterWeights> masters;
  std::optional<lockstep::Adam> optimizer;
  lockstep::SGD of_critic{critic->parameters(), {.lr = 0.05, .momentum = 0.5}};
  lockstep::GradScaler scaler;
};

// What a run's loop does before each step: a function of its number.
void phase(const Job& job, Parts& parts, std::int64_t global_step) {
  const std::int64_t step = global_step % kRound;
  const bool later = job.begins("later");
  if (step == kFrozen) set_gradients(*parts.net->body, later);
  if (step == kHeadToo) parts.net->head->weight.set_requires_grad(false);
  if (step == kHeadToo) parts.shift.set_requires_grad(false);
  if (step != kUnfrozen) return;
  set_gradients(*parts.net, true);
  parts.shift.set_requires_grad(true);
  parts.optimizer->reset_state();
  parts.optimizer->set_lr(0.01);
}

at::Tensor inputs_of(std::int64_t step, std::int64_t v) {
  return at::arange(18, at::kFloat)
      .view({6, 3})
      .mul(0.1F + 0.01F * float(step))
      .add(float(v))
      .sin();
}

at::Tensor loss_of(Parts& parts, std::int64_t step, std::int64_t v) {
  at::Tensor inputs = inputs_of(step, v);
  const at::Tensor targets = inputs.sum(1, true);
  if (parts.masters) inputs = inputs.to(at::kBFloat16);
  return (parts.net(inputs).to(at::kFloat) + parts.shift - targets).pow(2).mean();
}

// Right in the plain loop of one process, and wrong here or not, as the case says.
at::Tensor with_habit(const Job& job, Parts& parts, Share& share) {
  const std::int64_t step = share.global_step();
  if (job.is("freezes-in-closure") && step == 3) set_gradients(*parts.net->body, false);
  if (job.is("unfreezes-in-closure") && step == kFrozen) set_gradients(*parts.net->body, true);
  if (job.is("gan-toggles")) set_gradients(*parts.critic, share.update() == 1);
  if (job.begins("gan") && share.update() == 1)
    return parts.critic(inputs_of(step, share.virtual_worker())).pow(2).mean();
  at::Tensor loss = loss_of(parts, step, share.virtual_worker());
  if (job.begins("freezes-behind") && step == (job.is("freezes-behind-0") ? 0 : 3))
    set_gradients(*parts.net->body, false);
  if (job.begins("gan"))
    loss = loss + parts.critic(parts.net(inputs_of(step, 1)).expand({6, 3})).mean();
  return loss;
}

void grow(const Job& job, Parts& parts) {
  if (job.is("grows-parameter")) parts.net->body->weight.set_data(at::zeros({5, 3}));
  if (job.is("grows-buffer")) parts.net->norm->running_mean.set_data(at::ones({4}));
  if (job.is("grows-own")) parts.shift.set_data(at::zeros({2}));
  if (job.is("grows-moments")) parts.optimizer->state()[2].second.resize_({9});
}

void misuse(const Job& job, Parts& parts, const Step& step) {
  const bool other = job.context.rank() == 1;
  if (step.global_step() == 5 && job.begins("grows")) grow(job, parts);
  if (step.global_step() == 5 && job.is("by-rank") && other) set_gradients(*parts.net->head, false);
  if (step.global_step() == 5 && job.is("all-frozen")) {
    set_gradients(*parts.net, false);
    parts.shift.set_requires_grad(false);
  }
  if (step.global_step() == 5 && job.is("outside")) set_gradients(*parts.critic, true);
}

void wait_for(const std::string& path) {
  lockstep::test::until([&] { return std::filesystem::exists(path); });
}

lockstep::RunOptions options_of(const Job& job) {
  lockstep::RunOptions options;
  options.output = job.output;
  options.virtual_workers = job.begins("one") ? 1 : 4;
  options.max_steps = job.steps;
  options.checkpoint_every = lockstep::Duration::steps(12);
  if (job.begins("gan")) options.updates_per_step = 2;
  if (job.begins("clipped")) options.clip_grad_norm = 0.1;
  if (job.begins("unused")) options.find_unused_parameters = true;
  return options;
}

Status add_to(lockstep::TrainState& state, const Job& job, Parts& parts) {
  LOCKSTEP_TRY(state.add("net", *parts.net));
  LOCKSTEP_TRY(state.add("critic", *parts.critic));
  if (parts.masters) LOCKSTEP_TRY(state.add("masters", *parts.masters));
  LOCKSTEP_TRY(state.add("own", {{"shift", parts.shift}}));
  LOCKSTEP_TRY(state.add("optimizer", *parts.optimizer));
  if (job.begins("gan")) LOCKSTEP_TRY(state.add("of_critic", parts.of_critic));
  return job.begins("scaled") ? state.add("scaler", parts.scaler) : Status();
}

// Of what the run has left one module, into a new one.
Status load_back(const Job& job, const Parts& parts) {
  Net net, critic;
  LOCKSTEP_TRY(lockstep::load_state_dict(*net, job.output, "net"));
  LOCKSTEP_TRY(lockstep::load_state_dict(*critic, job.output, "critic"));
  const bool same = at::equal(net->head->weight, parts.net->head->weight) &&
                    at::equal(critic->body->weight, parts.critic->body->weight);
  std::printf("modules %s\n", same ? "came back" : "are others");
  return {};
}

Status train(const Job& job) {
  Parts parts(job);
  lockstep::TrainState state;
  LOCKSTEP_TRY(add_to(state, job, parts));
  Step step(job.context, state, options_of(job));
  if (job.begins("hook"))
    step.on_update([&](const lockstep::UpdateEnd& end) { phase(job, parts, end.global_step + 1); });
  LOCKSTEP_TRY(step.open());
  const Step::Closure loss = [&](Share& share) { return with_habit(job, parts, share); };
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) break;
    if (!job.begins("hook") && !job.is("never")) phase(job, parts, step.global_step());
    misuse(job, parts, step);
    // In a run of more steps its writer may be killed: it waited for none to come.
    if (job.steps == kRound && step.global_step() == 13)
      wait_for(job.output + "/checkpoints/step-000000" + (job.begins("gan") ? "24" : "12"));
    lockstep::test::hold_step(job.output, step.global_step());
    // Newcomers come in before the end.
    if (job.steps > kRound) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    LOCKSTEP_TRY(job.begins("gan") ? step.run({{*parts.optimizer, loss}, {parts.of_critic, loss}})
                                   : step.run(*parts.optimizer, loss));
  }
  std::printf("shift %.9g\n", parts.shift.item<double>());
  return job.is("right") ? load_back(job, parts) : Status();
}

// The same without a run.
Status plain(const Job& job) {
  Parts parts(job);
  for (std::int64_t step = 0; step < job.steps; ++step) {
    phase(job, parts, step);
    parts.optimizer->zero_grad();
    loss_of(parts, step, 0).backward();
    parts.optimizer->step();
  }
  lockstep::TrainState state;
  LOCKSTEP_TRY(add_to(state, job, parts));
  std::printf("weights sha256 %s\n", state.weights_sha256().c_str());
  return {};
}

// Epochs of 4 steps; their ends are evaluated, and freeze. Who comes in with such an end has seen
// none of the steps before.
Status trainer(const Job& job) {
  Net net;
  lockstep::SGD optimizer(net->parameters(), {.lr = 0.01, .momentum = 0.5});
  lockstep::RunOptions options = options_of(job);
  options.max_steps = 0;
  options.epochs = 6;
  options.batch_size = 2;
  options.checkpoint_every = lockstep::Duration::epochs(1);
  LOCKSTEP_ASSIGN(auto set, lockstep::data::tensor_dataset(at::randn({32, 3}), at::randn({32, 1})));
  lockstep::Trainer trainer(job.context, *net, optimizer, options);
  trainer.loss([&](const lockstep::data::Batch& batch) {
    if (job.is("trainer-slow")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return (net(batch.inputs) - batch.targets).pow(2).mean();
  });
  trainer.evaluation([&](const lockstep::data::Batch& batch) {
    return lockstep::Score{(net(batch.inputs) - batch.targets).pow(2).sum().item<double>(), 0,
                           batch.inputs.size(0)};
  });
  trainer.stop_when([&](const lockstep::EpochEnd& end) {
    if (end.epoch == 1) set_gradients(*net->body, false);
    if (end.epoch == 3) set_gradients(*net->body, true);
    return false;
  });
  return trainer.fit(set, set);
}

Status run(const Job& job) {
  if (job.begins("trainer")) return trainer(job);
  return job.begins("plain") ? plain(job) : train(job);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  const std::int64_t dozens = argc == 4 ? std::stoll(argv[3]) : 2;
  loops::run_worker([&](lockstep::Context& context) {
    return run({context, argv[1], argv[2], 12 * dozens});
  });
}

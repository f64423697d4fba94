// hooks_worker CASE RUN_DIR [EPOCHS]: a loop of Step's (or a Trainer) that does something at each
// update, right or wrong in the way that CASE says. The state counts the hook's calls, and has what
// it has seen: gradients, buffers, rows, random numbers.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <signal.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/utils/clip_grad.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

#include "lockstep/amp.h"
#include "lockstep/step.h"
#include "lockstep/trainer.h"
#include "loop_job.h"
#include "support/held_steps.h"
#include "worker_main.h"

namespace {

using lockstep::Share;
using lockstep::Status;
using lockstep::Step;
using lockstep::UpdateEnd;
using loops::Data;
using loops::Job;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    layer = register_module("layer", torch::nn::Linear(3, 2));
    norm = register_module("norm", torch::nn::BatchNorm1d(2));
    written = register_buffer("written", at::zeros({}, at::kDouble));
  }
  at::Tensor forward(const at::Tensor& inputs) { return norm(layer(inputs)); }
  torch::nn::Linear layer{nullptr};
  torch::nn::BatchNorm1d norm{nullptr};
  at::Tensor written;
};
TORCH_MODULE(Net);

// Writes to its gradients, in place, before it steps; by data(), of which no version tells.
struct Scaling : lockstep::SGD {
  using SGD::SGD;
  bool scales = false;
  void step() override {
    if (scales)
      for (const at::Tensor& p : parameters()) p.grad().data().mul_(0.5);
    SGD::step();
  }
};

struct Parts {
  Net net, average;
  Scaling optimizer{net->parameters(), lockstep::SGDOptions{.lr = 0.05, .momentum = 0.5}};
  lockstep::GradScaler scaler{{.init_scale = 2e38, .growth_interval = 1000}};
  at::Tensor calls = at::zeros({}, at::kLong), steps = at::zeros({}, at::kLong);
  at::Tensor seen = at::zeros({5}, at::kDouble), rows;  // seen[4]: all that the hook has written
  std::function<std::int64_t()> global_step;            // Step's own, from within a hook
  std::function<void()> again;                          // its next() or run() again, wrongly
  lockstep::NamedTensors own() const {
    return {{"calls", calls}, {"steps", steps}, {"seen", seen}};
  }
};

// One worker of the run, once.
void die_at(const Job& job, std::int64_t step, const UpdateEnd& end) {
  if (end.global_step != step || end.update != 0) return;
  if (std::filesystem::create_directory(job.output + "/died-" + std::to_string(step)))
    raise(SIGKILL);
}

void misuse(const Job& job, Parts& parts, const UpdateEnd& end) {
  at::Tensor& gradient = parts.net->layer->weight.mutable_grad();
  if (job.is("writes-gradient")) parts.seen[0] += gradient.mul_(2).sum();
  if (job.is("clips-gradient"))
    parts.seen[0] +=
        torch::nn::utils::clip_grad_norm_(parts.net->parameters(), 1e-3) + gradient.abs().sum();
  if (end.global_step != 5) return;
  if (job.is("own-gradient")) gradient = gradient * 2;
  if (job.is("throws")) throw std::runtime_error("no room in the album");
  if (job.name.ends_with("-in-hook")) parts.again();
}

// The norm is that of the gradients that are here, but for clipping.
void check(const Job& job, const Parts& parts, const UpdateEnd& end) {
  if (!end.result.grad_norm) return;
  double squares = 0;
  for (const at::Tensor& p : parts.net->parameters())
    squares += p.grad().to(at::kDouble).square().sum().item<double>();
  const double norm = *end.result.grad_norm, here = std::sqrt(squares);
  const double wanted = job.is("clips") ? std::min(norm, 0.1) : norm;
  if (std::abs(here - wanted) > 1e-4 * wanted) throw std::runtime_error("another norm");
  if (!(end.result.loss > 0 && end.result.loss_mean > 0)) throw std::runtime_error("no loss");
}

void hook(const Job& job, Parts& parts, UpdateEnd& end) {
  if (job.is("dies") || job.is("dies-updates"))
    for (const std::int64_t step : {3, 10}) die_at(job, step, end);
  if (job.has("slow"))  // and so some apply later than others
    std::this_thread::sleep_for(
        std::chrono::milliseconds((job.has("updates") ? 30 : 120) + 5 * job.context.rank()));
  if (end.update == 0) lockstep::test::hold_step(job.output, end.global_step + 1);
  static int outside = 0;
  if (job.has("counts-outside")) parts.seen[1] += ++outside;
  parts.calls += 1;
  parts.steps += end.stepped ? 1 : 0;
  const at::Tensor& gradient = parts.net->layer->weight.grad();
  parts.seen[0] += gradient.defined() ? gradient.abs().sum() : at::zeros({});
  parts.seen[1] += at::rand({});
  parts.seen[2] += parts.net->norm->running_mean.sum();  // of this update already
  parts.seen[3] += double(end.global_step * 10 + end.update * 3 + end.epoch + end.step);
  if (parts.global_step) parts.seen[3] += double(parts.global_step());
  if (parts.rows.defined()) parts.seen[2] += parts.rows.sum();
  if (parts.rows.defined()) parts.rows.mul_(0.5);
  parts.seen[3] += parts.optimizer.lr();  // of the next update already
  if (job.has("ends") && end.global_step == 7 && end.update == 0) end.end_run();
  const bool first = job.context.rank() == 0;
  if (end.global_step == 7 && (job.is("first-stops") ? first : job.is("others-stop") && !first))
    end.end_run();
  parts.net->layer->weight.clamp_(-0.5, 0.5);
  parts.net->written.add_(parts.net->layer->weight.sum());
  parts.seen[4] += parts.net->layer->weight.sum();
  parts.average->layer->weight.lerp_(parts.net->layer->weight, 0.1);
  check(job, parts, end);
  misuse(job, parts, end);
}

at::Tensor loss_of(const Job& job, Parts& parts, Share& share) {
  // In a run of more steps its writer may be killed: it waited for none to come.
  if (job.has("slow") && job.epochs == 0 && share.global_step() == 7) job.wait_for_checkpoint();
  if (job.name.ends_with("-in-closure") && share.global_step() == 5) parts.again();
  const at::Tensor found = parts.net(share.batch().inputs);
  share.carry("h", share.carried("h") + found.mean());
  return job.taken(share, (found - share.batch().targets).pow(2).mean());
}

lockstep::RunOptions options_of(const Job& job) {
  lockstep::RunOptions options = job.options();
  options.batch_size = 4;
  if (job.epochs == 0) options.max_steps = 16;
  if (job.has("outside")) options.checkpoint_every = lockstep::Duration::steps(5);
  if (job.is("clips")) options.clip_grad_norm = 0.1;
  if (job.is("right")) options.grad_norm = true;  // which changes nothing
  return options;
}

void print(const Parts& parts, const lockstep::TrainState& state) {
  std::printf("calls %ld stepped %ld state %s\n", long{parts.calls.item<std::int64_t>()},
              long{parts.steps.item<std::int64_t>()}, state.sha256().c_str());
}

Status train(const Job& job, const Data& set) {
  Parts parts;
  parts.optimizer.scales = job.is("optimizer-writes");
  if (job.has("asks")) std::printf("of %d\n", job.context.world_size());
  lockstep::TrainState state;
  LOCKSTEP_TRY(state.add("model", *parts.net));
  LOCKSTEP_TRY(state.add("average", *parts.average));
  LOCKSTEP_TRY(state.add("optimizer", parts.optimizer));
  LOCKSTEP_TRY(state.add("own", parts.own()));
  if (job.is("scaler")) LOCKSTEP_TRY(state.add("scaler", parts.scaler));
  LOCKSTEP_TRY(state.add_carried("h", at::zeros({})));
  Step step(job.context, state, options_of(job));
  const auto call = [&](UpdateEnd& end) {
    if (!parts.rows.defined()) parts.rows = state.carried("h").value();
    if (!parts.global_step) parts.global_step = [&] { return step.global_step(); };
    hook(job, parts, end);
  };
  if (job.is("empty"))
    step.on_update(nullptr);
  else if (!job.is("no-hook"))
    step.on_update(call);
  LOCKSTEP_TRY(step.open(set));
  if (job.is("late")) step.on_update(call);
  const auto loss = [&](Share& share) { return loss_of(job, parts, share); };
  parts.again = [&] {  // what it returns goes nowhere
    if (job.name.starts_with("next"))
      static_cast<void>(step.next().ok());
    else
      static_cast<void>(step.run(parts.optimizer, loss).ok());
  };
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) break;
    if (job.is("adds-late")) LOCKSTEP_TRY(state.add("more", *parts.average));
    if (job.is("later") && step.global_step() == 3) step.on_update(call);
    LOCKSTEP_TRY(job.run(step, parts.optimizer, loss));
    if (parts.net->layer->weight.grad().defined())
      return {lockstep::Error{lockstep::ErrorKind::kInternal, "a gradient is left"}};
    if (job.is("own-backward")) parts.net->layer(at::ones({1, 3})).sum().backward();
  }
  if (!at::equal(parts.net->written, parts.seen[4]))
    return {lockstep::Error{lockstep::ErrorKind::kInternal, "a buffer that a hook wrote is lost"}};
  if (step.is_first()) print(parts, state);
  return {};
}

// That step at each update.
struct Schedules {
  std::optional<lockstep::StepLR> steps;
  std::optional<lockstep::LambdaLR> lambda;
  std::optional<lockstep::ReduceLROnPlateau> plateau;

  void give(const Job& job, Parts& parts, lockstep::Trainer& trainer) {
    using lockstep::Per;
    using Mode = lockstep::ReduceLROnPlateauOptions::Mode;
    if (job.has("steps")) trainer.schedule(steps.emplace(parts.optimizer, 3, 0.5), Per::kUpdate);
    const auto warmup = [](std::int64_t t) {
      return std::min(1.0, static_cast<double>(t + 1) / 4);
    };
    if (job.has("lambda")) trainer.schedule(lambda.emplace(parts.optimizer, warmup), Per::kUpdate);
    const lockstep::ReduceLROnPlateauOptions settings{
        .mode = job.has("max") ? Mode::kMax : Mode::kMin, .factor = 0.5, .patience = 0};
    if (job.has("plateau"))
      trainer.schedule(plateau.emplace(parts.optimizer, settings), Per::kUpdate);
  }
};

void given_late(const Job& job, Parts& parts, Schedules& schedules, lockstep::Trainer& trainer) {
  if (job.is("trainer-adds-late")) trainer.add("more", *parts.average);
  if (job.is("trainer-scales-late")) trainer.scaler(parts.scaler);
  if (job.is("trainer-remembers-late")) trainer.keep_history();
  if (job.is("trainer-schedules-late"))
    trainer.schedule(schedules.lambda.emplace(parts.optimizer, [](std::int64_t) { return 1.0; }));
}

Status trainer(const Job& job, const Data& set) {
  Parts parts;
  Schedules schedules;
  lockstep::Trainer trainer(job.context, *parts.net, parts.optimizer, options_of(job));
  trainer.add("average", *parts.average);
  trainer.add(job.is("trainer-name") ? "optimizer" : "own", parts.own());
  trainer.add_carried("h", at::zeros({}));
  trainer.on_update([&](UpdateEnd& end) { hook(job, parts, end); });
  schedules.give(job, parts, trainer);
  if (job.name.ends_with("-scaler")) trainer.scaler(parts.scaler);
  trainer.loss([&](Share& share) {
    if (job.is("trainer-late") && share.global_step() == 2)
      trainer.on_update([](const UpdateEnd&) {});
    if (share.global_step() == 2) given_late(job, parts, schedules, trainer);
    return loss_of(job, parts, share);
  });
  trainer.on_finished([&] {
    std::printf("calls %ld stepped %ld seen %.17g\n", long{parts.calls.item<std::int64_t>()},
                long{parts.steps.item<std::int64_t>()}, parts.seen[3].item<double>());
    return Status();
  });
  return trainer.fit(set);
}

// The masters' gradients are there, the half weights are new, and follow what is written to the
// masters.
Status masters(const Job& job, const Data& set) {
  Parts parts;
  lockstep::MasterWeights masters(*parts.net, at::kBFloat16);
  lockstep::SGD optimizer(masters.parameters(), {.lr = 0.05});
  lockstep::Trainer trainer(job.context, *parts.net, optimizer, options_of(job));
  trainer.master_weights(masters);
  trainer.add("own", parts.own());
  trainer.on_update([&](const UpdateEnd& end) {
    parts.calls += 1;
    parts.steps += end.stepped ? 1 : 0;
    for (const auto& pair : masters.pairs()) {
      if (!pair.master.grad().defined() || pair.master.grad().scalar_type() != at::kFloat)
        throw std::runtime_error("a master has no gradient");
      if (!at::equal(pair.model, pair.master.to(at::kBFloat16)))
        throw std::runtime_error("a half weight is another one than its master");
      parts.seen[0] += pair.master.grad().abs().sum();
      at::Tensor(pair.master).clamp_(-0.25, 0.25);
    }
  });
  trainer.loss([&](const lockstep::data::Batch& batch) {
    for (const auto& pair : masters.pairs())
      if (batch.inputs.size(0) > 0 && parts.calls.item<std::int64_t>() > 0 &&
          pair.model.abs().max().item<double>() > 0.25)
        throw std::runtime_error("a half weight has not followed its master");
    const at::Tensor found = parts.net(batch.inputs.to(at::kBFloat16)).to(at::kFloat);
    return (found - batch.targets).pow(2).mean();
  });
  trainer.on_finished([&] {
    std::printf("calls %ld stepped %ld seen %.17g\n", long{parts.calls.item<std::int64_t>()},
                long{parts.steps.item<std::int64_t>()}, parts.seen[0].item<double>());
    return Status();
  });
  return trainer.fit(set);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  loops::run_worker([&](lockstep::Context& context) -> Status {
    LOCKSTEP_ASSIGN(const auto set,
                    lockstep::data::tensor_dataset(at::randn({96, 3}), at::randn({96, 2})));
    const Job job{context, argv[1], argv[2], 4, argc > 3 ? std::atol(argv[3]) : 0};
    if (job.is("masters")) return masters(job, set);
    return job.name.starts_with("trainer") ? trainer(job, set) : train(job, set);
  });
}

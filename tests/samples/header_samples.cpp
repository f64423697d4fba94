// The samples at the head of the public headers, to see that they compile. tools/check_docs looks
// that each stands here, whatever its line breaks; what surrounds it is what it takes for granted.
#include <torch/data/datasets/map.h>
#include <torch/data/datasets/mnist.h>
#include <torch/data/transforms/stack.h>
#include <torch/data/transforms/tensor.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <iostream>

#include "lockstep/lockstep.h"
#include "lockstep/models.h"

namespace F = torch::nn::functional;

namespace samples {

struct NetImpl : torch::nn::Module {
  NetImpl() { layer = register_module("layer", torch::nn::Linear(2, 2)); }
  at::Tensor forward(const at::Tensor& inputs) { return layer(inputs); }
  torch::nn::Linear layer{nullptr};
};
TORCH_MODULE(Net);

using Data = std::shared_ptr<const lockstep::data::Dataset>;

double schedule(std::int64_t step);
at::Tensor loss_of(const lockstep::data::Batch& batch);
void save();

lockstep::Status checkpoint(Net model, lockstep::Optimizer& optimizer) {
  using Parts = std::vector<lockstep::CheckpointPart>;
  const Parts parts{{"model", lockstep::state_dict(*model)}, {"optimizer", optimizer.state()}};
  LOCKSTEP_TRY(lockstep::save_checkpoint("runs/1", parts, {.txn = 100}, "{}"));
  LOCKSTEP_TRY(lockstep::load_checkpoint("runs/1", parts));  // into those tensors
  return {};
}

lockstep::Status snapshot(Net model, lockstep::Optimizer& optimizer) {
  LOCKSTEP_TRY(lockstep::save_pt(
      "snapshot.pt",
      {{"MODEL_STATE", &*model}, {"OPTIMIZER_STATE", optimizer.state_dict()}, {"EPOCHS_RUN", 3}}));
  LOCKSTEP_ASSIGN(const lockstep::PtFields fields, lockstep::load_pt("snapshot.pt"));
  LOCKSTEP_TRY(lockstep::load_state_dict(*model, "snapshot.pt", "MODEL_STATE"));
  LOCKSTEP_TRY(lockstep::load_state_dict(optimizer, "snapshot.pt", "OPTIMIZER_STATE"));
  return {};
}

lockstep::Status some_names(Net model) {
  LOCKSTEP_ASSIGN(const lockstep::IncompatibleKeys keys,
                  lockstep::load_state_dict(*model, "weights.safetensors", {.strict = false}));
  for (const std::string& name : keys.missing_keys)
    std::cerr << "not in the file: " << name << "\n";
  return {};
}

lockstep::Status torch_data_sets() {
  using namespace torch::data;
  LOCKSTEP_ASSIGN(auto train_set,
                  lockstep::data::from_torch(datasets::MNIST("mnist")
                                                 .map(transforms::Normalize<>(0.1307, 0.3081))
                                                 .map(transforms::Stack<>())));
  return {};
}

void transforms() {
  using namespace lockstep::transforms;
  const Compose augment{AutoAugment{}, Resize{244, 244}, ToTensor{}};
}

struct Options {};
lockstep::Status train(lockstep::Context& context, const Options& options);

void spawn(const Options& options) {
  const lockstep::Status done =
      lockstep::spawn(4, [&](lockstep::Context& context) { return train(context, options); });
  if (!done.ok()) lockstep::exit_with(done.error());
}

void vision() {
  using namespace lockstep::transforms;
  auto train = lockstep::data::open_cifar10(
      "data", lockstep::data::Split::kTrain,
      {RandomCrop{32, 32, 4}, RandomHorizontalFlip{}, ToTensor{},
       Normalize{{0.4914F, 0.4822F, 0.4465F}, {0.247F, 0.243F, 0.261F}}});
}

void command_line(int argc, char** argv) {
  struct {
    double lr = 0.1;
    lockstep::RunOptions run;
  } options;
  lockstep::CommandLine line("convnet", "MNIST with a small convolutional net");
  line.add("--lr", options.lr, "learning rate");
  lockstep::add_run_options(line, options.run);
  line.parse(argc, argv);  // --help ends with 0; a wrong one prints why and ends with 2
}

lockstep::Status ddp(lockstep::Context& context, lockstep::Optimizer& optimizer,
                     const lockstep::data::Batch& batch) {
  LOCKSTEP_ASSIGN(auto group, lockstep::init_process_group(context));
  lockstep::DistributedDataParallel ddp(Net(), group);
  // Then, for each batch:
  optimizer.zero_grad();
  auto loss = F::cross_entropy(ddp(batch.inputs), batch.targets);
  loss.backward();  // on return every grad() is the mean over ranks
  optimizer.step();
  return {};
}

lockstep::Status data_parallel(lockstep::Context& context, lockstep::Optimizer& optimizer,
                               lockstep::RunOptions options, const Data& train_set) {
  using lockstep::data::Batch;
  auto net = Net();
  lockstep::DataParallel model(
      net, [] { return Net(); }, 4);
  options.virtual_workers = 1;
  options.identity["replicas"] = std::to_string(model.replicas());
  lockstep::Trainer trainer(context, *net, optimizer, options);
  trainer.loss(
      [&](const Batch& batch) { return F::cross_entropy(model(batch.inputs), batch.targets); });
  return trainer.fit(train_set);
}

lockstep::Status horovod(lockstep::Context& context, Net net, const lockstep::RunOptions& options,
                         const Data& train_set) {
  LOCKSTEP_ASSIGN(auto hvd, lockstep::horovod::init(context, options));
  lockstep::SGD sgd(net->parameters(), {.lr = 1e-4 * hvd.size()});
  LOCKSTEP_TRY(hvd.broadcast_parameters(*net));
  LOCKSTEP_TRY(hvd.broadcast_optimizer_state(sgd));
  lockstep::horovod::DistributedOptimizer optimizer(hvd, sgd, *net);
  LOCKSTEP_TRY(hvd.step()->open(train_set));
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, hvd.step()->next());
    if (!more) break;
    LOCKSTEP_TRY(optimizer.step([&](lockstep::Share& share) {
      return loss_of(share.batch());  // hvd.rank(): which virtual worker this is
    }));
  }
  return {};
}

lockstep::Status horovod_own_form(lockstep::Context& context, Net net, lockstep::SGD sgd,
                                  const lockstep::data::Batch& batch) {
  using lockstep::ProcessGroupOptions;
  LOCKSTEP_ASSIGN(auto hvd,
                  lockstep::horovod::init(context, ProcessGroupOptions{.output = "runs/1"}));
  LOCKSTEP_TRY(hvd.broadcast_parameters(*net));
  LOCKSTEP_TRY(hvd.broadcast_optimizer_state(sgd));
  lockstep::horovod::DistributedOptimizer optimizer(hvd, sgd, *net);
  // Then, for each batch of this rank's own:
  optimizer.zero_grad();
  F::cross_entropy(net(batch.inputs), batch.targets).backward();  // grad(): the mean over ranks
  LOCKSTEP_TRY(optimizer.step());
  return {};
}

lockstep::Status process_group(lockstep::Context& context, at::Tensor correct) {
  LOCKSTEP_ASSIGN(auto group, lockstep::init_process_group(context, {.output = "runs/1"}));
  LOCKSTEP_TRY(group.all_reduce(correct));  // int64 tensor: the sum over ranks, in every rank
  if (group.rank() == 0) save();
  LOCKSTEP_TRY(group.barrier());
  return {};
}

lockstep::Status step(lockstep::Context& context, Net model, lockstep::Optimizer& optimizer,
                      const lockstep::RunOptions& options, const Data& train_set) {
  lockstep::TrainState state;  // all that the next step depends on
  LOCKSTEP_TRY(state.add("model", *model));
  LOCKSTEP_TRY(state.add("optimizer", optimizer));
  lockstep::Step step(context, state, options);
  LOCKSTEP_TRY(step.open(train_set));  // joins the run, resumes, or takes a live peer's state
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) break;
    optimizer.set_lr(schedule(step.global_step()));
    LOCKSTEP_TRY(
        step.run(optimizer, [&](lockstep::Share& share) { return loss_of(share.batch()); }));
  }
  return {};
}

lockstep::Status schedule(lockstep::Step& step, lockstep::TrainState& state,
                          lockstep::Optimizer& optimizer, const lockstep::Step::Closure& loss,
                          const Data& train_set) {
  lockstep::StepLR scheduler(optimizer, 30, 0.1);  // optimizer and model are in `state`
  LOCKSTEP_TRY(state.add("scheduler", scheduler));
  LOCKSTEP_TRY(step.open(train_set));
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) break;
    if (step.global_step() > 0 && step.global_step() % step.steps_per_epoch() == 0)
      scheduler.step();
    LOCKSTEP_TRY(step.run(optimizer, loss));
  }
  return {};
}

void schedule_by_update(lockstep::Step& step, lockstep::StepLR& scheduler) {
  step.on_update([&](const lockstep::UpdateEnd&) { scheduler.step(); });  // before open()
}

struct Episode {
  at::Tensor states, rewards;
};
Episode play(Net& policy, std::uint64_t seed);
at::Tensor loss_of(Net& policy, const Episode& episode);

// docs/guide/own_loop.md has it, too.
lockstep::Status without_data(lockstep::Context& context, lockstep::TrainState& state,
                              lockstep::RunOptions options, lockstep::Optimizer& optimizer,
                              Net policy) {
  options.max_steps = 5000;
  lockstep::Step step(context, state, options);
  LOCKSTEP_TRY(step.open());
  for (;;) {
    LOCKSTEP_ASSIGN(const bool more, step.next());
    if (!more) break;
    LOCKSTEP_TRY(step.run(optimizer, [&](lockstep::Share& share) {
      const Episode episode = play(policy, share.seed());
      return loss_of(policy, episode);
    }));
  }
  return {};
}

void on_update(lockstep::Step& step, torch::nn::Linear net, const at::Tensor& average) {
  step.on_update([&](const lockstep::UpdateEnd&) { average.lerp_(net->weight, 0.01); });
}

at::Tensor ratio_of(lockstep::Share& share);
at::Tensor divergence_of(const at::Tensor& ratio);
at::Tensor policy_loss(const at::Tensor& ratio, lockstep::Share& share);

// docs/guide/gans.md has these, too.
lockstep::Status updates(lockstep::Step& step, lockstep::SGD& d_optimizer,
                         lockstep::Adam& g_optimizer, const lockstep::Step::Closure& d_loss,
                         const lockstep::Step::Closure& g_loss) {
  LOCKSTEP_TRY(step.run({{d_optimizer, d_loss}, {g_optimizer, g_loss}}));
  return {};
}

lockstep::Status several(lockstep::Step& step, lockstep::SGD& means_optimizer,
                         lockstep::Adam& colors_optimizer, const lockstep::Step::Closure& loss) {
  LOCKSTEP_TRY(step.run({&means_optimizer, &colors_optimizer}, loss));
  return {};
}

void sums(const lockstep::StepResult& result) {
  for (const auto& [name, sum] : result.sums)  // in the order of the names' bytes
    std::printf("%s: %.4f\n", name.c_str(), sum.mean());
}

lockstep::Status ten_times(lockstep::Step& step, lockstep::Adam& optimizer) {
  const auto loss = [&](lockstep::Share& share) {
    const at::Tensor ratio = ratio_of(share);
    if (divergence_of(ratio).item<double>() > 0.015) return at::Tensor();
    return policy_loss(ratio, share);
  };
  LOCKSTEP_TRY(step.run(std::vector<lockstep::Step::Update>(10, {optimizer, loss})));
  return {};
}

lockstep::Status trainer(lockstep::Context& context, Net model, lockstep::Optimizer& optimizer,
                         const lockstep::RunOptions& options, const Data& train_set,
                         const Data& test_set) {
  lockstep::Trainer trainer(context, *model, optimizer, options);
  trainer.loss([&](const lockstep::data::Batch& batch) {
    return F::cross_entropy(model->forward(batch.inputs), batch.targets);
  });
  trainer.evaluation([&](const lockstep::data::Batch& batch) {
    return lockstep::cross_entropy_score(model->forward(batch.inputs), batch.targets);
  });
  const lockstep::Status status = trainer.fit(train_set, test_set);
  return status;
}

void mixed(lockstep::Context& context, Net model, lockstep::Optimizer& optimizer,
           const lockstep::RunOptions& options) {
  lockstep::GradScaler scaler;  // for float16; bfloat16 needs none
  lockstep::Trainer trainer(context, *model, optimizer, options);
  trainer.scaler(scaler);
  trainer.loss([&](const lockstep::data::Batch& batch) {
    const lockstep::Autocast autocast(at::kCPU, at::kHalf);
    return F::cross_entropy(model->forward(batch.inputs), batch.targets);
  });
}

void optimizers(Net model, Net encoder, Net head) {
  lockstep::SGD sgd(model->parameters(), {.lr = 0.1, .momentum = 0.9});
  lockstep::AdamW adamw({{encoder->parameters(), {.lr = 1e-5}},
                         {head->parameters(), {.lr = 1e-3, .weight_decay = 0.1}}});
  sgd.step();
  adamw.step();
}

at::Tensor models(const at::Tensor& images) {
  at::manual_seed(0);
  const auto net = lockstep::models::resnet18(10);
  at::Tensor scores = net->forward(images);
  return scores;
}

}  // namespace samples

// What a tutorial's main.cpp calls its own functions: the library takes none of these names.
using namespace lockstep;
void train(int epoch);
void test();
void validate();
void run_epoch() {
  train(1);
  validate();
  test();
}

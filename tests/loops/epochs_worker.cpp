// epochs_worker RUN_DIR FOLDER [slow|fails]: a Trainer with all that an epoch's end may have: two
// schedules, the best, lines of its own and a file of each epoch's end in FOLDER.
#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "lockstep/lockstep.h"

namespace {

using lockstep::EpochEnd;
using lockstep::data::Batch;

std::string text_of(const EpochEnd& end) {
  char text[256];
  std::snprintf(text, sizeof text,
                "epoch %ld/%ld after %ld: train %a, lr %g, loss %a, correct %g of %ld, best %a in "
                "%ld, before %a\n",
                long{end.epoch}, long{end.epochs}, long{end.global_step}, end.train_loss, end.lr,
                end.loss, end.correct, long{end.count}, end.best, long{end.best_epoch},
                end.best_before);
  return text;
}

std::string text_of(const lockstep::StepEnd& end) {
  std::string text = "step " + std::to_string(end.global_step) + ":";
  for (std::size_t v = 0; v < end.losses.size(); ++v)
    text += " " + std::to_string(end.losses[v]) + " of " + std::to_string(end.samples[v]);
  return text + "\n";
}

class Job {
 public:
  Job(lockstep::Context& context, char** argv, std::string how)
      : context_(context), run_(argv[1]), folder_(argv[2]), how_(std::move(how)) {}

  lockstep::Status train() {
    lockstep::RunOptions options;
    options.output = run_;
    options.batch_size = 2;
    options.epochs = 6;
    options.virtual_workers = 3;
    options.checkpoint_every = 3;
    options.evaluation_batch_size = 5;
    lockstep::Adam optimizer(model_->parameters(), {.lr = 0.1});
    lockstep::StepLR steps(optimizer, 4, 0.5);
    lockstep::ReduceLROnPlateau plateau(optimizer, {.patience = 0, .threshold = 0.5});
    lockstep::Trainer trainer(context_, *model_, optimizer, options);
    trainer.loss([&](const Batch& batch) { return loss_of(batch); });
    trainer.evaluation([&](const Batch& batch) {
      const at::Tensor out = model_->forward(batch.inputs);
      return lockstep::Score{(out - batch.targets).square().sum().item<double>(),
                             (out * batch.targets).gt(0).sum().item<double>(), out.size(0)};
    });
    trainer.schedule(steps);
    trainer.schedule(plateau);
    trainer.best(lockstep::BestOf::kLoss);
    trainer.step_lines([](const lockstep::StepEnd& end) { return text_of(end); });
    trainer.epoch_lines([](const EpochEnd& end) { return text_of(end); });
    trainer.exports(
        [&](const EpochEnd& end) { return write(end, optimizer); },
        [](const EpochEnd& end) { return "epoch " + std::to_string(end.epoch) + " is written\n"; });
    LOCKSTEP_ASSIGN(auto train_set, data(24));
    LOCKSTEP_ASSIGN(auto test_set, data(13));
    return trainer.fit(train_set, test_set);
  }

 private:
  at::Tensor loss_of(const Batch& batch) {
    if (how_ == "slow") std::this_thread::sleep_for(std::chrono::milliseconds(30));
    return torch::nn::functional::mse_loss(model_->forward(batch.inputs), batch.targets);
  }

  // Every second epoch; with the weights of its end and the next one's rate.
  lockstep::Result<bool> write(const EpochEnd& end, const lockstep::Optimizer& optimizer) {
    if (how_ == "fails")
      return lockstep::Error{lockstep::ErrorKind::kDisk, "no room for " + folder_};
    if (end.epoch % 2 == 0) return false;
    lockstep::TrainState state;
    LOCKSTEP_TRY(state.add("model", *model_));
    std::ofstream file(folder_ + "/epoch_" + std::to_string(end.epoch));
    file << text_of(end) << "next " << optimizer.lr() << " " << state.weights_sha256() << "\n";
    return true;
  }

  static lockstep::Result<std::shared_ptr<const lockstep::data::Dataset>> data(std::int64_t rows) {
    at::manual_seed(7);
    const at::Tensor inputs = at::randn({rows, 3});
    return lockstep::data::tensor_dataset(inputs, inputs.sum(1, true));
  }

  lockstep::Context& context_;
  std::string run_, folder_, how_;
  torch::nn::Linear model_{3, 1};
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  at::manual_seed(0);
  lockstep::exit_with(*context, Job(*context, argv, argc > 3 ? argv[3] : "").train());
}

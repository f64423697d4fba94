// The classifier tutorial's exercise (000): its simple linear regression under torchrun, a loss
// line of each rank in each epoch.
//
//   linear_regression
#include <ATen/Functions.h>
#include <torch/nn/functional/loss.h>

#include "lines.h"
#include "lockstep/command_line.h"
#include "lockstep/lockstep.h"
#include "lockstep/models.h"
#include "start.h"

namespace F = torch::nn::functional;
using lockstep::StepEnd;
using lockstep::data::Batch;

namespace {

constexpr std::int64_t kSamples = 128, kInputs = 20;

struct Options {
  double lr = 1e-2;
  int spawned = 0;  // workers that the program starts itself
  lockstep::RunOptions run;
};

Options parse(int argc, char** argv) {
  Options options;
  options.run.name = "linear_regression";
  options.run.output = "linear_regression-run";
  options.run.epochs = 20;
  options.run.batch_size = 32;
  lockstep::CommandLine line("linear_regression", "a linear regression, on any number of workers");
  line.add("--lr", options.lr, "learning rate", {.least = 0});
  classifier::add_spawn(line, options.spawned);
  lockstep::add_run_options(line, options.run);
  line.parse(argc, argv);
  return options;
}

// A plane over the inputs, and noise of variance 1, which no model can foretell.
lockstep::Result<std::shared_ptr<const lockstep::data::Dataset>> draw_data() {
  const at::Tensor inputs = at::randn({kSamples, kInputs});
  const at::Tensor slopes = at::randn({kInputs, 1});
  const at::Tensor noise = at::randn({kSamples, 1});
  return lockstep::data::tensor_dataset(inputs, inputs.matmul(slopes).add(noise));
}

std::string step_lines(const StepEnd& end) {
  std::string lines;
  const std::size_t ranks = end.losses.size();
  if (end.step == 0) lines = classifier::epoch_header(end.epoch);
  if (end.begins_interval)
    lines += classifier::of_each_rank(0, ranks, [&](std::size_t v) {
      return classifier::loss_line(end.losses[v], end.step * end.samples[v], kSamples);
    });
  if (end.epoch + 1 == end.epochs && end.step + 1 == end.steps_per_epoch)
    lines += classifier::of_each_rank(0, ranks, [](std::size_t) { return "Done!\n"; });
  return lines;
}

lockstep::Status train(lockstep::Context& context, const Options& options) {
  at::manual_seed(options.run.seed);
  LOCKSTEP_ASSIGN(const auto data, draw_data());
  torch::nn::Linear model = lockstep::models::toy_linear();
  lockstep::SGD optimizer(model->parameters(), {.lr = options.lr});

  lockstep::Trainer trainer(context, *model, optimizer, options.run);
  trainer.loss(
      [&](const Batch& batch) { return F::mse_loss(model->forward(batch.inputs), batch.targets); });
  trainer.step_lines(step_lines);
  return trainer.fit(data);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  classifier::start(options.spawned,
                    [&](lockstep::Context& context) { return train(context, options); });
}

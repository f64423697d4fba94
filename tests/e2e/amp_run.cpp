// convnet in mixed precision (--precision bf16|fp16|fp32) with a GradScaler (--init-scale S: none
// for 0): compared with tests/golden/amp.py, which has torch.autocast and torch.amp.GradScaler.
// With --masters half weights and fp32 masters: compared with tests/golden/apex.py.
#include <torch/nn/functional/loss.h>

#include <optional>
#include <string>

#include "lockstep/lockstep.h"
#include "lockstep/models.h"

namespace F = torch::nn::functional;
using lockstep::data::Batch;

struct Options {
  lockstep::RunOptions run{.name = "amp_run"};
  std::string data, precision = "fp32";
  double init_scale = 0;
  std::int64_t growth_interval = 2000;
  double max_scale = 16777216;
  bool masters = false;
};

static lockstep::Status train(lockstep::Context& context, const Options& options) {
  LOCKSTEP_ASSIGN(auto digits,
                  lockstep::data::open_images(options.data, lockstep::data::Split::kTrain));
  at::manual_seed(options.run.seed);
  const auto model = lockstep::models::convnet();
  const at::ScalarType half = options.precision == "fp16" ? at::kHalf : at::kBFloat16;
  std::optional<lockstep::MasterWeights> masters;
  if (options.masters) masters.emplace(*model, half);
  lockstep::SGD optimizer(masters ? masters->parameters() : model->parameters(),
                          {.lr = 0.01, .momentum = 0.9});
  lockstep::GradScaler scaler({.init_scale = options.init_scale,
                               .growth_interval = options.growth_interval,
                               .max_scale = options.max_scale});
  lockstep::Trainer trainer(context, *model, optimizer, options.run);
  if (options.init_scale != 0) trainer.scaler(scaler);
  if (masters) trainer.master_weights(*masters);
  trainer.loss([&](const Batch& batch) {
    if (masters)
      return F::cross_entropy(model->forward(batch.inputs.to(half)).to(at::kFloat), batch.targets);
    const lockstep::Autocast autocast(at::kCPU, half, options.precision != "fp32");
    return F::cross_entropy(model->forward(batch.inputs), batch.targets);
  });
  return trainer.fit(digits);
}

int main(int argc, char** argv) {
  Options options;
  options.run.clip_grad_norm = 0.5;
  options.run.shuffle = lockstep::data::Shuffle::kDistributed;
  lockstep::CommandLine line("amp_run", "a test's program");
  line.add("--data", options.data, "a folder with MNIST's IDX files");
  line.add_choice(
      "--precision", {"fp32", "bf16", "fp16"}, options.precision,
      [&](const std::string& value) { options.precision = value; }, "of the forward");
  line.add("--init-scale", options.init_scale, "the GradScaler's; 0: none");
  line.add("--growth-interval", options.growth_interval, "the GradScaler's");
  line.add("--max-scale", options.max_scale, "the GradScaler's");
  line.add_flag("--masters", options.masters, "half weights with fp32 masters");
  lockstep::add_run_options(line, options.run);
  line.parse(argc, argv);
  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, train(*context, options));
}

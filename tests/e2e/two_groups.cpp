// convnet with AdamW in two groups, and clipping: what docs/design/arithmetic.md says of them,
// compared with the stranger's script (golden_run.py has the same numbers).
#include <torch/nn/functional/loss.h>

#include <string>
#include <vector>

#include "lockstep/lockstep.h"
#include "lockstep/models.h"

namespace F = torch::nn::functional;
using lockstep::data::Batch;

static lockstep::Status train(lockstep::Context& context, const lockstep::RunOptions& options,
                              const std::string& data) {
  LOCKSTEP_ASSIGN(auto digits, lockstep::data::open_images(data, lockstep::data::Split::kTrain));
  at::manual_seed(options.seed);
  const auto model = lockstep::models::convnet();
  std::vector<at::Tensor> layers, classifier;
  for (const auto& item : model->named_parameters())
    (item.key().starts_with("fc.") ? classifier : layers).push_back(item.value());
  lockstep::AdamW optimizer({{layers, {.lr = 1e-3, .weight_decay = 0.05}},
                             {classifier, {.lr = 1e-2, .weight_decay = 0.2}}});
  lockstep::Trainer trainer(context, *model, optimizer, options);
  trainer.loss([&](const Batch& batch) {
    return F::cross_entropy(model->forward(batch.inputs), batch.targets);
  });
  return trainer.fit(digits);
}

int main(int argc, char** argv) {
  std::string data;
  lockstep::RunOptions options{.name = "two_groups", .clip_grad_norm = 0.5};
  options.shuffle = lockstep::data::Shuffle::kDistributed;
  lockstep::CommandLine line("two_groups", "a test's program");
  line.add("--data", data, "a folder with MNIST's IDX files");
  lockstep::add_run_options(line, options);
  line.parse(argc, argv);
  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, train(*context, options, data));
}

#include "toy.h"

#include <ATen/Functions.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>

namespace F = torch::nn::functional;
using lockstep::EpochEnd;
using lockstep::data::Batch;

namespace multigpu {
namespace {

constexpr std::int64_t kSamples = 2048, kInputs = 20;

// PyTorch's MyTrainDataset: a list of pairs, each drawn after the other.
lockstep::Result<std::shared_ptr<const lockstep::data::Dataset>> toy_data() {
  std::vector<at::Tensor> inputs, targets;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    inputs.push_back(at::rand({kInputs}));
    targets.push_back(at::rand({1}));
  }
  return lockstep::data::tensor_dataset(at::stack(inputs), at::stack(targets));
}

// What each rank of the original says at an epoch's start.
std::string epoch_start(const lockstep::StepEnd& end) {
  if (end.step != 0) return "";
  std::string lines;
  for (std::size_t v = 0; v < end.samples.size(); ++v)
    lines += "[GPU" + std::to_string(v) + "] Epoch " + std::to_string(end.epoch) +
             " | Batchsize: " + std::to_string(end.samples[v]) +
             " | Steps: " + std::to_string(end.steps_per_epoch) + "\n";
  return lines;
}

// A snapshot without a run: its weights and its epoch, all that it has.
lockstep::Result<std::optional<lockstep::StartPoint>> load(torch::nn::Module& model,
                                                           const std::string& path) {
  LOCKSTEP_ASSIGN(const auto fields, lockstep::load_pt_if_there(path));
  if (!fields) return std::optional<lockstep::StartPoint>();
  const auto* last = lockstep::pt_field<std::int64_t>(*fields, "EPOCHS_RUN");
  if (last == nullptr)
    return lockstep::Error{lockstep::ErrorKind::kBadData,
                           "'" + path +
                               "' has no EPOCHS_RUN: it is not of this program; give "
                               "another --snapshot"};
  LOCKSTEP_TRY(lockstep::load_state_dict(model, path, "MODEL_STATE"));
  return std::optional(lockstep::StartPoint::behind(*last));
}

// What the trainer saves, and says that it has saved.
lockstep::Status save(const Options& options, const torch::nn::Module& model, std::int64_t epoch) {
  if (!options.snapshots) return lockstep::save_pt(options.file, model);
  return lockstep::save_pt(options.file, {{"MODEL_STATE", &model}, {"EPOCHS_RUN", epoch}});
}

void go_on_from_snapshot(lockstep::Trainer& trainer, torch::nn::Module& model,
                         const std::string& file) {
  trainer.start_from([&model, file] { return load(model, file); });
  trainer.on_resume([](std::int64_t epoch, std::int64_t) {
    std::printf("Loading snapshot\nResuming training from snapshot at Epoch %ld\n", long{epoch});
  });
}

}  // namespace

Options options_of(const std::string& program, bool snapshots) {
  Options options;
  options.snapshots = snapshots;
  options.file = snapshots ? "snapshot.pt" : "checkpoint.pt";
  options.run.name = program;
  options.run.output = program + "-run";
  options.run.epochs = 50;
  options.run.batch_size = 32;
  return options;
}

void parse(lockstep::CommandLine& line, Options& options, int argc, char** argv) {
  line.add("--epochs,total_epochs", options.run.epochs, "epochs of the whole run", {.least = 1});
  line.add("--save-every,save_every", options.save_every,
           "epochs between " + std::string(options.snapshots ? "snapshots" : "checkpoints"),
           {.least = 1});
  line.add_path(options.snapshots ? "--snapshot" : "--checkpoint", options.file,
                "the file's path; Python's torch.load() opens it");
  line.add_choice(
      "--loss", {"mse", "cross_entropy"}, "mse",
      [&](const std::string& name) { options.mean_squared_error = name == "mse"; },
      "cross_entropy, the original's, is over one column: its gradient is zero");
  lockstep::add_run_options(line, options.run);
  line.parse(argc, argv);
  options.run.files = {options.file};
  options.run.identity = {{"loss", options.mean_squared_error ? "mse" : "cross_entropy"}};
}

lockstep::Status train(lockstep::Context& context, const Options& options) {
  at::manual_seed(options.run.seed);
  LOCKSTEP_ASSIGN(const auto data, toy_data());
  torch::nn::Linear model(kInputs, 1);
  lockstep::SGD optimizer(model->parameters(), {.lr = 1e-3});

  lockstep::Trainer trainer(context, *model, optimizer, options.run);
  trainer.loss([&](const Batch& batch) {
    const at::Tensor out = model->forward(batch.inputs);
    return options.mean_squared_error ? F::mse_loss(out, batch.targets)
                                      : F::cross_entropy(out, batch.targets);
  });
  trainer.step_lines(epoch_start);
  trainer.exports(
      [&](const EpochEnd& end) -> lockstep::Result<bool> {
        if (end.epoch % options.save_every != 0) return false;
        LOCKSTEP_TRY(save(options, *model, end.epoch));
        return true;
      },
      [&](const EpochEnd& end) {
        if (!end.written) return std::string();
        return "Epoch " + std::to_string(end.epoch) + " | Training " +
               (options.snapshots ? "snapshot" : "checkpoint") + " saved at " + options.file + "\n";
      });
  if (options.snapshots) go_on_from_snapshot(trainer, *model, options.file);
  return trainer.fit(data);
}

}  // namespace multigpu

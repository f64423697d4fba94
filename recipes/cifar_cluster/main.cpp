// CIFAR-10 with a ResNet-18 for clusters (tutorial 004): its arguments, lines and files, on any
// number of workers.
//
//   lockstep run --nproc-per-node 2 cifar_cluster --custom_data true
#include <ATen/Context.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/module.h>

#include <charconv>
#include <filesystem>
#include <string_view>

#include "data.h"
#include "lines.h"
#include "lockstep/lockstep.h"
#include "lockstep/models.h"
#include "options.h"

namespace F = torch::nn::functional;
using cifar_cluster::Options;
using lockstep::Error;
using lockstep::ErrorKind;
using lockstep::Result;
using lockstep::Status;
using lockstep::data::Batch;

namespace {

constexpr const char* kModelSeed = "model_seed";

// The original's is the year; a run that began in another year keeps its own.
std::uint64_t seed_of(const Options& options, const lockstep::RunSoFar& run) {
  const auto kept = run.manifest.find(kModelSeed);
  std::uint64_t seed = options.seed;
  if (!options.seed_given && kept != run.manifest.end())
    std::from_chars(kept->second.data(), kept->second.data() + kept->second.size(), seed);
  return seed;
}

// Its state_dict is that of DistributedDataParallel, which keeps the model as `module`.
struct Wrapped : torch::nn::Module {
  explicit Wrapped(std::shared_ptr<torch::nn::Module> model) {
    register_module("module", std::move(model));
  }
};

Status make_folder(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (!failed) return {};
  return Error{ErrorKind::kDisk, "cannot make '" + path + "': " + failed.message()};
}

// The epoch in `epoch_3.pth`.
Result<std::int64_t> epoch_of(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  constexpr std::string_view kBefore = "epoch_", kAfter = ".pth";
  std::int64_t epoch = 0;
  const char* const end = name.data() + name.size();
  if (name.starts_with(kBefore) && name.ends_with(kAfter))
    if (const auto [rest, error] = std::from_chars(name.data() + kBefore.size(), end, epoch);
        error == std::errc() && rest == end - kAfter.size() && epoch > 0)
      return epoch;
  return Error{ErrorKind::kUsage, "--weights is '" + path +
                                      "': its name must be epoch_N.pth, which says after which "
                                      "epoch it goes on"};
}

Status train(lockstep::Context& context, Options options) {
  LOCKSTEP_ASSIGN(const lockstep::RunSoFar run, lockstep::run_so_far(context, options.run));
  const std::uint64_t seed = seed_of(options, run);
  options.run.identity = {{kModelSeed, std::to_string(seed)},
                          {"image_size", std::to_string(options.image_size)}};
  at::manual_seed(seed);
  LOCKSTEP_ASSIGN(const cifar_cluster::Data data, cifar_cluster::open_data(options));
  const auto model = lockstep::models::cifar_resnet18(data.classes);
  if (options.channels_last) lockstep::models::to_channels_last(*model);
  const auto format =
      options.channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const auto scores_of = [&](const Batch& batch) {
    return model->forward(batch.inputs.contiguous(format));
  };
  const Wrapped wrapped(model);
  lockstep::Adam optimizer(model->parameters(), {.lr = options.lr * run.virtual_workers});

  lockstep::Trainer trainer(context, *model, optimizer, options.run);
  trainer.loss(
      [&](const Batch& batch) { return F::cross_entropy(scores_of(batch), batch.targets); });
  trainer.evaluation(
      [&](const Batch& batch) {
        return lockstep::cross_entropy_score(scores_of(batch), batch.targets);
      },
      lockstep::EvaluatedOn::kValidationSet);
  trainer.epoch_lines(cifar_cluster::epoch_lines);
  LOCKSTEP_TRY(make_folder(options.output_dir));
  LOCKSTEP_TRY(lockstep::check_can_write(options.output_dir + "/epoch_1.pth"));
  trainer.exports([&](const lockstep::EpochEnd& end) -> Result<bool> {
    const torch::nn::Module* saved = &wrapped;
    if (!options.module_prefix) saved = model.get();
    const std::string name = "epoch_" + std::to_string(end.epoch + 1) + ".pth";
    LOCKSTEP_TRY(lockstep::save_pt(options.output_dir + "/" + name, *saved));
    return true;
  });
  if (!options.weights.empty())
    trainer.start_from([&]() -> Result<std::optional<lockstep::StartPoint>> {
      LOCKSTEP_ASSIGN(const std::int64_t epoch, epoch_of(options.weights));
      LOCKSTEP_TRY(lockstep::load_state_dict(*model, options.weights));
      return std::optional(lockstep::StartPoint{epoch});
    });
  return trainer.fit(data.train, data.val);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = cifar_cluster::parse(argc, argv);
  if (lockstep::is_first_main()) cifar_cluster::greet(options);
  auto context = lockstep::init({.rendezvous = options.rendezvous});
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, train(*context, options));
}

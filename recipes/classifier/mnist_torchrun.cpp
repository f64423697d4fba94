// The classifier tutorial's MNIST trainer (000): the quickstart tutorial's network, and a
// checkpoint file every so many epochs.
//
//   mnist_torchrun --data DIR
#include <ATen/Context.h>
#include <torch/nn/functional/loss.h>

#include <system_error>

#include "lines.h"
#include "lockstep/command_line.h"
#include "lockstep/lockstep.h"
#include "lockstep/models.h"
#include "start.h"

namespace F = torch::nn::functional;
using lockstep::EpochEnd;
using lockstep::StepEnd;
using lockstep::data::Batch;

namespace {

constexpr std::int64_t kPixels = 784;  // of MNIST's 28x28

struct Options {
  std::string data = "synthetic";
  std::string checkpoint_file = "output_model/best_model.pt";
  std::int64_t save_every = 1;
  std::int64_t image_size = 0;  // to which pictures are scaled; 0: as they come
  int spawned = 0;              // workers that the program starts itself
  lockstep::RunOptions run;

  bool saves(std::int64_t epoch) const { return epoch % save_every == 0; }
};

Options parse(int argc, char** argv) {
  Options options;
  options.run.name = "mnist_torchrun";
  options.run.output = "mnist_torchrun-run";
  options.run.batch_size = 32;
  lockstep::CommandLine line("mnist_torchrun",
                             "MNIST with checkpoint files, on any number of workers");
  line.add_path("--data", options.data,
                "'synthetic' (digits drawn once), or a folder with MNIST's IDX files");
  line.add("--save-every", options.save_every, "epochs between checkpoint files", {.least = 1});
  line.add_path("--checkpoint-file", options.checkpoint_file,
                "weights and epoch; Python's torch.load() opens it");
  line.add("--image-size", options.image_size,
           "height and width that pictures are scaled to; 0: as they come, 28 for MNIST",
           {.least = 0, .most = 1024});
  classifier::add_spawn(line, options.spawned);
  lockstep::add_run_options(line, options.run);
  line.parse(argc, argv);
  options.run.files = {options.checkpoint_file};
  if (options.image_size > 0)
    options.run.identity["image_size"] = std::to_string(options.image_size);
  return options;
}

bool is_last(const StepEnd& end) {
  return end.epoch + 1 == end.epochs && end.step + 1 == end.steps_per_epoch;
}

// Of rank 0, as in the original; the other ranks are done while that one still writes its file.
std::string step_lines(const Options& options, const StepEnd& end, std::int64_t size) {
  std::string lines;
  if (end.begins_interval)
    lines = classifier::loss_line(end.losses.front(), end.step * end.samples.front(), size);
  if (is_last(end))
    lines += classifier::of_each_rank(options.saves(end.epoch) ? 1 : 0, end.losses.size(),
                                      [](std::size_t) { return "Done!\n"; });
  return lines;
}

std::string file_lines(const EpochEnd& end) {
  if (!end.written) return "";
  return classifier::epoch_header(end.epoch) + "Finished saving model\n\n" +
         (end.epoch + 1 == end.epochs ? "Done!\n" : "");
}

lockstep::Status save(const std::string& path, const EpochEnd& end,
                      const torch::nn::Module& model) {
  return lockstep::save_pt(path, {{"epoch", end.epoch}, {"model_state_dict", &model}});
}

// A file without a run: its weights and its epoch, all that it has.
lockstep::Result<std::optional<lockstep::StartPoint>> load(const std::string& path,
                                                           torch::nn::Module& model) {
  LOCKSTEP_ASSIGN(const auto fields, lockstep::load_pt_if_there(path));
  if (!fields) return std::optional<lockstep::StartPoint>();
  const auto* epoch = lockstep::pt_field<std::int64_t>(*fields, "epoch");
  if (epoch == nullptr)
    return lockstep::Error{
        lockstep::ErrorKind::kBadData,
        "'" + path + "' has no epoch: it is not of this program; give another --checkpoint-file"};
  LOCKSTEP_TRY(lockstep::load_state_dict(model, path, "model_state_dict"));
  return std::optional(lockstep::StartPoint::behind(*epoch));
}

lockstep::Status train(lockstep::Context& context, const Options& options) {
  const std::int64_t side = options.image_size;
  LOCKSTEP_ASSIGN(const auto data,
                  lockstep::data::open_images(options.data, lockstep::data::Split::kTrain, side));
  at::manual_seed(options.run.seed);
  const auto model = lockstep::models::quickstart_mlp(side > 0 ? side * side : kPixels);
  lockstep::Adam optimizer(model->parameters(), {.lr = 1e-3});

  lockstep::Trainer trainer(context, *model, optimizer, options.run);
  trainer.loss([&](const Batch& batch) {
    return F::cross_entropy(model->forward(batch.inputs), batch.targets);
  });
  trainer.step_lines([&](const StepEnd& end) { return step_lines(options, end, data->size()); });
  trainer.exports(
      [&](const EpochEnd& end) -> lockstep::Result<bool> {
        if (!options.saves(end.epoch)) return false;
        LOCKSTEP_TRY(save(options.checkpoint_file, end, *model));
        return true;
      },
      file_lines);
  trainer.start_from([&] { return load(options.checkpoint_file, *model); });
  return trainer.fit(data);
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  classifier::start(options.spawned,
                    [&](lockstep::Context& context) { return train(context, options); });
}

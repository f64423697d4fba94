#include "options.h"

#include <filesystem>

#include "lockstep/command_line.h"
#include "lockstep/context.h"

namespace classifier {
namespace {

void add_options(lockstep::CommandLine& line, Options& options) {
  line.add_path(
      "--data", options.data,
      "a folder with photographs by class in Train, Validation and, if there is one, Test; or "
      "a .tar or .tar.gz of it, with --stage");
  line.add_path("--stage", options.stage, "a folder into which an archive is unpacked, once");
  line.add_path("--weights", options.weights,
                "torchvision's file of resnet34; without: random values, said on standard error");
  line.add_choice(
      "--backbone", {"auto", "frozen", "trained"}, options.backbone,
      [&](const std::string& value) { options.backbone = value; },
      "all layers but the new head; auto: frozen with --weights, else trained");
  line.add_path("--checkpoint-file", options.checkpoint_file,
                "the best model so far; Python's torch.load() opens it");
  line.add("--image-size", options.image_size, "pictures' height and width",
           {.least = 1, .most = 4096});
  line.add("--lr", options.lr, "Adam's learning rate", {.least = 0});
  line.add("--label-smoothing", options.label_smoothing, "of the loss", {.least = 0, .most = 1});
  line.add("--num-workers", options.run.prefetch_threads,
           "threads of each worker that prepare pictures ahead; they change no bit",
           {.least = 0, .most = 64});
}

}  // namespace

Options parse(int argc, char** argv) {
  Options options;
  options.run.name = "classifier";
  options.run.output = "classifier-run";
  options.run.epochs = 5;
  options.run.batch_size = 16;
  options.run.log_every = {};
  options.run.prefetch_threads = 4;
  lockstep::CommandLine line("classifier",
                             "photographs by class with a ResNet-34, on any number of workers");
  add_options(line, options);
  lockstep::add_run_options(line, options.run);
  line.parse(argc, argv);
  if (options.data.empty())
    lockstep::exit_with(lockstep::Error{lockstep::ErrorKind::kUsage,
                                        "--data is missing: a folder with Train and Validation, "
                                        "each with a folder for each class"});
  std::error_code code;  // without a working directory a relative path stays one
  const auto file = std::filesystem::absolute(options.checkpoint_file, code);
  if (!code) options.checkpoint_file = file.lexically_normal().string();
  options.run.files = {options.checkpoint_file};
  options.run.identity = {{"backbone", options.frozen() ? "frozen" : "trained"},
                          {"image_size", std::to_string(options.image_size)},
                          {"label_smoothing", lockstep::identity_text(options.label_smoothing)}};
  return options;
}

}  // namespace classifier
